"""The status of a job in another process: at work, killed, and continued."""

import re
import shlex
import subprocess
import sys

from tests.support.command import ENVIRONMENT, read, save_operands
from tests.support.jobs import finished, wait_until
from tests.support.places import CLUSTER

# After the fifth tile no thread goes on.
SLOWLY = """if True:
    import sys, time
    from twom_dist.cli import following, main
    from twom_dist.store import Output
    write = Output.write
    def write_slowly(output, *tile):
        write(output, *tile)
        time.sleep(600 if len(output.finished()) > 5 else 0.1)
    Output.write = write_slowly
    following._SHORT_SECONDS = 1.0
    main(sys.argv[1:])
"""
TYPED = ("gemm", "A.zarr", "B.npy", "-o", "C.zarr", "--num-moduli", "16")
EXAMPLES = re.compile(r"\$ twom-dist status C.zarr\n(.*?)(?=\$|```)", re.DOTALL)
TIME = re.compile(r"\b(\d+m )?\d+s\b")
RATE = re.compile(r"\d+\.\d tiles (a|an) (second|minute|hour)")


def outline(text, folder):
    """Replace what differs from run to run."""
    text = re.sub(r"on \S+, for", "on node, for", text.replace(str(folder), "/data"))
    text = RATE.sub("some tiles a minute", TIME.sub("some time", text))
    return re.sub(r"\d+ of \d+", "some of all", text)


def test_the_example_of_the_docs(call, here):
    a, b, _ = save_operands(70, 30, 90)
    script = [sys.executable, "-c", SLOWLY, *TYPED, "--chunks=16", "--n-workers=0"]
    # A log has the first tile.
    silence = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(script, env=ENVIRONMENT, **silence)
    try:
        wait_until(lambda: call("status", "C.zarr")[1].count("tiles ") > 1)
        running = call("status", "C.zarr")
        begun, line = (process.stderr.readline() for _ in range(2))
    finally:
        process.kill()
    process.communicate()
    assert re.match(r"twom-dist: begins on \d+ threads?, 30 tiles to compute$", begun)
    assert re.match(r"twom-dist: \d+ of 30 tiles, \d.* GFLOP/s, .* left$", line), line
    stopped = call("status", "C.zarr")
    assert (running[0], stopped[0]) == (1, 1)
    examples = EXAMPLES.findall((CLUSTER / "README.md").read_text("utf-8"))
    documented = [outline(x.replace("B.zarr", "B.npy"), "/data") for x in examples]
    own = " --num-moduli 16 --n-workers 0 --chunks 16"
    found = [outline(x[1].replace(own, ""), here) for x in (running, stopped)]
    assert found == documented
    kept = len(finished())
    *_, last = stopped[1].splitlines()
    command = shlex.split(last.removeprefix("continue"))
    code, out, _ = call(*command[1:])
    assert code == 0
    assert f"{kept} of them from before" in out
    assert call("status", "C.zarr")[0] == 0
    assert read("C.zarr").shape == (a @ b).shape
