"""What stands in for a device: threads that wait for one another."""

import ctypes
from pathlib import Path

from tests.support.cuda import host
from tests.support.cuda.host import HostKernels

_FOLDER = Path(host.__file__).parent
# Each of four threads reads what another one writes; the first may leave before.
_TEXT = f"""
#include "{_FOLDER / "host_shim.h"}"
#include "{_FOLDER / "host_barrier.h"}"
static unsigned int leaves, held[4], read[4];
static void thread() {{
  unsigned int i = threadIdx.x;
  if (leaves && i == 0) return;
  held[i] = i + 10;
  __syncthreads();
  read[i] = held[3 - i];
}}
extern "C" unsigned int run(unsigned int first_leaves, unsigned int* out) {{
  blockDim = {{4, 1, 1}};
  leaves = first_leaves;
  undefined_line = 0;
  run_together(thread);
  for (int i = 0; i < 4; ++i) out[i] = read[i];
  return undefined_line;
}}
"""


def test_threads_wait_for_one_another(host_kernels: HostKernels):
    run, out = host_kernels.compile(_TEXT).run, (ctypes.c_uint * 4)()
    assert run(0, out) == 0
    assert list(out) == [13, 12, 11, 10]


def test_a_thread_that_leaves_others_waiting_is_found(host_kernels: HostKernels):
    assert host_kernels.compile(_TEXT).run(1, (ctypes.c_uint * 4)()) != 0
