"""Run the CUDA kernels on the host: the same text, built by the host's compiler.

The grid is a loop over blocks and threads. Arrays are checked for the types that the
parameters point to, which no device would do.
"""

import ctypes
import re
import shutil
import subprocess
from functools import cache
from importlib.resources import files
from pathlib import Path
from threading import Lock

import numpy as np

from tests.support.cuda.host_tiles import tiles
from twom_dist.kernels.cuda.packing import flatten, members_of, pack, packing_of
from twom_dist.kernels.cuda.sources import TILE_FAMILY, signatures, source_of, text_of

COMPILER = shutil.which("g++")
_SHIM = Path(__file__).with_name("host_shim.h")
_BARRIER = Path(__file__).with_name("host_barrier.h")
# What only a device can do, and what stands for it here.
_DEVICES_OWN = {
    files("twom_dist.kernels.cuda").joinpath(name).read_text("utf-8"): (
        Path(__file__).with_name(own).read_text("utf-8")
    )
    for name, own in {
        **{"ring.cuh": "host_ring.h", "mma.cuh": "host_mma.h"},
        "copies.cuh": "host_copies.h",
    }.items()
}
# The handlers of the checks for undefined behaviour are in the shim: no library needed.
_CHECKS = "alignment,shift,signed-integer-overflow,bounds,float-cast-overflow"
_OPTIONS = (
    *("-std=c++17", "-O1", "-fPIC", "-w", "-ffp-contract=off", "-frounding-math"),
    *("-fno-strict-aliasing", f"-fsanitize={_CHECKS}"),
    # Shared memory of templates belongs to one library, as all other memory does.
    "-fno-gnu-unique",
)
_DYNAMIC = re.compile(r"extern __shared__ (\w+) (\w+)\[\];")
# Where the name is not NumPy's.
_TYPES = {"uint4": "uint32", "float": "float32", "Job": "int32", "Mirror": "uint32"}


@cache
def _threads(module, name):
    bounds = re.compile(rf"__launch_bounds__\((\w+)[, \w]*\)\s*{name}\(")
    (threads,) = bounds.findall(text_of(module.family))
    return int(dict(module.macros).get(threads, threads))


def _wrapper(name, count, block):
    """Loop over the grid; parameters arrive as members of a structure, as CUDA's do."""
    return f"""
template <class... T, unsigned long... I>
static void call_{name}(void (*kernel)(T...), Indices<I...>) {{
  kernel(*static_cast<T*>(arguments[I])...);
}}
static void thread_of_{name}() {{ call_{name}({name}, Range<{count}>::type()); }}
extern "C" unsigned int launch_{name}(const unsigned int* shape, char* data,
                                      unsigned long size) {{
  gridDim = {{shape[0], shape[1], shape[2]}};
  blockDim = {{shape[3], shape[4], shape[5]}};
  if (find_arguments({name}, data) != size) return ~0u;
  undefined_line = 0;
  guard_shared(shape[6]);
  FOR_EACH(blockIdx, gridDim) {block}(thread_of_{name});
  check_shared(shape[6], __LINE__);
  return undefined_line;
}}
"""


_PRELUDE = """
#define FOR_EACH(i, count) for (i.z = 0; i.z < count.z; ++i.z) \\
  for (i.y = 0; i.y < count.y; ++i.y) for (i.x = 0; i.x < count.x; ++i.x)
template <unsigned long... I> struct Indices {};
template <int N, unsigned long... I> struct Range : Range<N - 1, N - 1, I...> {};
template <unsigned long... I> struct Range<0, I...> { typedef Indices<I...> type; };
static void* arguments[64];
template <class... T>
static unsigned long find_arguments(void (*)(T...), char* data) {
  unsigned long end = 0;
  int i = 0;
  ((end = (end + alignof(T) - 1) / alignof(T) * alignof(T),
    arguments[i++] = data + end, end += sizeof(T)), ...);
  return end;
}
static void run_alone(void (*thread)()) { FOR_EACH(threadIdx, blockDim) thread(); }
"""


def _variables(constants):
    """Write constants as variables, so that systems share what is built."""
    names = [name for name, _ in constants.numbers]
    numbers = "".join(f"{name} = numbers[{i}]; " for i, name in enumerate(names))
    kind = "double" if constants.table.dtype == np.float64 else "unsigned int"
    return f"""
static int {", ".join(names)};
static const {kind}* TABLE;
extern "C" void set_constants(const int* numbers, const {kind}* table) {{
  {numbers}TABLE = table;
}}
"""


def host_text(module, extra="", specialised=False):
    """Write the text that the host's compiler builds, with constants or variables."""
    names = signatures(module.family)
    counts = {x: len(packing_of(module.family, x).offsets) for x in names}
    text = source_of(module) if specialised else text_of(module.family)
    for theirs, ours in _DEVICES_OWN.items():
        text = text.replace(theirs, ours)
    text = _DYNAMIC.sub(r"\1* const \2 = (\1*)dynamic_shared;", text)
    if module.constants is not None and not specialised:
        text = _variables(module.constants) + text
    # Coroutines take time: for those alone that wait for one another.
    block, head = "run_alone", ""
    if "__syncthreads" in text or "__shfl" in text:
        block, head = "run_together", f'#include "{_BARRIER}"\n'
    wrappers = "".join(_wrapper(name, count, block) for name, count in counts.items())
    head = f'#include "{_SHIM}"\n{head}#line 1 "{module.family}"\n'
    return f"{head}{text}{extra}{_PRELUDE}{wrappers}"


class HostKernels:
    """Modules built and kept, each when first asked for.

    `specialised`: one for each residue system, as on a device, where otherwise systems
    share what is built.
    """

    def __init__(self, kept, specialised=False):
        self._kept, self._specialised = kept, specialised
        self._built, self._lock = {}, Lock()
        asked = subprocess.run([COMPILER, "-v"], capture_output=True, text=True)
        self._version = asked.stderr

    def launch(self, module, name, grid, block, args, shared=0):
        check_arguments(module, name, args)
        packed = pack(module.family, name, args, lambda x, _: x.ctypes.data)
        self.launch_packed(module, name, grid, block, *packed, shared)

    def launch_packed(self, module, name, grid, block, data, offsets, shared=0):
        """Run a launch whose arguments are packed as the kernel's signature says."""
        if module.family == TILE_FAMILY:
            tiles().launch(module, (*grid,), (*block,), data, offsets, shared)
            return
        with self._lock:
            library = self._library(module)
            shape = np.array([*grid, *block, shared], np.uint32)
            assert shape.size == 7, f"{name}: grid {grid}, block {block}"
            assert np.prod(shape[3:6]) <= _threads(module, name), f"{name}: {block}"
            assert (shape[1:3] <= 65535).all(), f"{name}: grid {grid}"
            # At an address that 64 divides, as structures of parameters may want.
            given = np.frombuffer(data, np.uint8)
            buffer = np.zeros(given.size + 64, np.uint8)
            own = buffer[-buffer.ctypes.data % 64 :][: given.size]
            own[...] = given
            run = getattr(library, f"launch_{name}")
            run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ulong)
            run.restype = ctypes.c_uint
            line = run(shape.ctypes.data, own.ctypes.data, own.size)
        assert line != 2**32 - 1, f"{name} has no arguments of {len(data)} bytes"
        assert line == 0, f"undefined behaviour in {name}, line {line} of its module"

    def _library(self, module):
        system = module.system if self._specialised else None
        key, constants = (module.family, module.macros, system), module.constants
        if key not in self._built:
            text = host_text(module, specialised=self._specialised)
            self._built[key] = self.compile(text, module.options)
        library = self._built[key]
        if constants is not None and not self._specialised:
            numbers = np.array([value for _, value in constants.numbers], np.int32)
            set_constants = library.set_constants
            set_constants.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
            set_constants.restype = None
            set_constants(numbers.ctypes.data, constants.table.ctypes.data)
        return library

    def take_counts(self, module, threads):
        """Return how often threads have multiplied since they were asked last."""
        own = (ctypes.c_uint64 * threads).in_dll(self._library(module), "multiplied")
        found = list(own)
        own[:] = [0] * threads
        return found

    def take_copied(self, family):
        """Return how many bytes a family has copied since it was asked last."""
        libraries = [own for key, own in self._built.items() if key[0] == family]
        counts = [ctypes.c_uint64.in_dll(x, "copied_bytes") for x in libraries]
        found = sum(x.value for x in counts)
        for x in counts:
            x.value = 0
        return found

    def compile(self, text, options=()):
        options = (*_OPTIONS, *options)
        shim = _SHIM.read_text("utf-8") + _BARRIER.read_text("utf-8")

        def make(library):
            source, unit = library.with_suffix(".cpp"), library.with_suffix(".o")
            source.write_text(text, "utf-8")
            for command in (
                (*options, "-c", source, "-o", unit),
                ("-shared", unit, "-o", library),
            ):
                command = [COMPILER, *command]
                done = subprocess.run(command, capture_output=True, text=True)
                assert done.returncode == 0, done.stderr

        parts = (self._version, *options, shim, text)
        return ctypes.CDLL(str(self._kept(".so", parts, make)))


def check_arguments(module, name, args):
    """Check the types of arguments: those of arrays as well, which packing ignores."""
    macros = dict(module.macros)
    named = {"REAL": macros.get("REAL", "double"), "SUM": macros.get("SUM")}
    named["Sample"] = f"uint{8 * int(macros.get('PARTS', 1))}"
    declared = signatures(module.family)[name].split(",")
    parameters = [y for x in declared for y in members_of(module.family, x)]
    for parameter, given in zip(parameters, flatten(args), strict=True):
        where = f"{name}, {parameter.name}"
        if not parameter.pointer:
            assert np.ndim(given) == 0, f"{where}: {given!r} is no number"
        elif given is not None:
            assert isinstance(given, np.ndarray), f"{where}: {type(given)} given"
            word = named.get(parameter.type, parameter.type)
            dtype, own = np.dtype(_TYPES.get(word, word)), given.real.dtype
            assert own.itemsize == dtype.itemsize, f"{where}: {given.dtype} given"
            assert (own.kind == "f") == (dtype.kind == "f"), where
            assert parameter.constant or given.flags.writeable, f"{where} is read-only"
