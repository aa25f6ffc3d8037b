#!/bin/bash
# The first nine minutes on an H100 or H200: which card, bits, speeds beside what was
# predicted, and what limits them; with `second`, four more, with GEMMul8 if
# GEMMUL8_LIBRARY names its libgemmul8.so. Not run on a device.
#   GPU_PYTHON=.venv/bin/python OUT=folder benchmarks/first_minutes.sh [second]
set -eu
cd "$(dirname "$0")/.."
export PYTHONPATH=. python=${GPU_PYTHON:-python3} out=${OUT:-first-minutes}
mkdir -p "$out"
bench() { "$python" "benchmarks/bench_$1.py" "${@:2}" --output "$out/$1.jsonl"; }
compare() { "$python" benchmarks/predicted.py "$out"/*.jsonl | tee "$out/predicted.txt"; }
if [ "${1:-}" = second ]; then
    bench gpu --part peers --sizes 4096,8192
    bench gpu --part ours --sizes 16384
    "$python" - "$out/winograd.jsonl" << 'END' # a gain below 10 % would not pay for its code
import sys
from benchmarks.gpu_products import bench_winograd
from benchmarks.harness import Report
for n in (24576, 32768):
    bench_winograd(Report(sys.argv[1]), n, 2)
END
    bench transport --gpu --sizes 16,64
    compare
    exit
fi
nvidia-smi -q -d CLOCK,POWER > "$out/card.txt"
make test-gpu GPU_PYTHON="$python" ARGS="-x -m 'gpu and not slow'"
bench gpu --part ours --sizes 512,1024,2048,4096,8192 # stacks with their stages
bench look --gpu --long 0 --sizes 512,1024,2048,4096,8192 --phi 0,1,2
compare
"$python" - > "$out/small.txt" << 'END' # calls in a row, and the host's time by function
import cProfile
from functools import partial
from benchmarks.gpu_clock import event_seconds, random_pair
from benchmarks.gpu_products import cp, gemm
for n in (64, 128, 256, 512, 1024):
    A, B = random_pair(n)
    for name, call in {"gemm": partial(gemm, A, B), "matmul": partial(cp.matmul, A, B)}.items():
        call()
        best = min(event_seconds(lambda: [call() for _ in range(20)]) for _ in range(7))
        print(n, name, f"{best / 20 * 1e6:.1f} us")
A, _ = random_pair(64)
cProfile.run("for _ in range(2000): gemm(A, A)", sort="tottime")
END
asked=lts__t_sectors_op_read.sum.per_second,dram__bytes.sum.per_second
asked+=,sm__inst_executed_pipe_tensor_op_imma.avg.pct_of_peak_sustained_active
ncu --clock-control none --metrics $asked -k regex:'^products|scale_and_encode|decode' -c 12 \
    "$python" -c "from benchmarks.gpu_products import by, gemm, random_pair
for own in ('wgmma', 'mma256', 'mma'): by((own,), lambda: gemm(*random_pair(4096)))()" > "$out/limits.txt"
