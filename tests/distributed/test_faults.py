"""Workers and schedulers that die, stop or fill up: the right bits, or a sentence."""

import errno
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import dask
import pytest
from distributed import Client
from distributed.core import Status
from distributed.scheduler import KilledWorker

import twom_dist as td
from tests.command import CommandLine, contents, make, read, same_bits, save
from twom_dist.errors import StoreError
from twom_dist.jobs import lay_out, multiply_files, watchdog
from twom_dist.plan import Cluster
from twom_dist.store import _npy
from twom_dist.tiles import plugin

pytestmark = pytest.mark.timeout(90)

GIB = 2**30
M, K, N = 70, 50, 90
WORKERS = 3
STAGES = {
    "scaling": "twom_dist.tiles.tasks.largest_exponents",
    "product": "twom_dist.tiles.tasks.product_tile",
    "writing": "twom_dist.jobs.writing.write_tile",
}


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": WORKERS, "threads_per_worker": 1, "memory_limit": 2 * GIB}
    # Else a cluster gives up a worker that dies twice within a quarter of a minute.
    patient = {"distributed.deploy.lost-worker-timeout": "10 minutes"}
    with dask.config.set(patient), td.local_cluster(gpus=False, **options) as made:
        yield made


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A and B in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    a, b = make(M, K, 1), make(K, N, 2)
    save("A.zarr", a)
    save("B.npy", b)
    return a, b


@pytest.fixture
def impatient(monkeypatch):
    """Give up after a second or two."""
    for name in ("LOOK_SECONDS", "ANSWER_SECONDS", "PATIENCE_SECONDS"):
        monkeypatch.setattr(watchdog, name, {"L": 0.2, "A": 2, "P": 1.5}[name[0]])
    monkeypatch.setattr("twom_dist.jobs.running.CANCEL_SECONDS", 1)
    monkeypatch.setattr("twom_dist.jobs.running.STOP_SECONDS", 1)


def multiply(client, output="C.zarr", **options):
    options = {"tile": 16, **options}
    return multiply_files("A.zarr", "B.npy", output, client=client, **options)


def wait_until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


# --- what goes wrong, inside the workers ----------------------------------------------


def wrap(stage, before):
    """Have this process do something before each call of a stage."""
    module, _, name = STAGES[stage].rpartition(".")
    original = getattr(sys.modules[module], name)

    def wrapped(*args, **kwargs):
        before()
        return original(*args, **kwargs)

    wrapped.original = original
    setattr(sys.modules[module], name, wrapped)


def unwrap(stage):
    module, _, name = STAGES[stage].rpartition(".")
    found = getattr(sys.modules[module], name)
    setattr(sys.modules[module], name, getattr(found, "original", found))


def load(dask_worker=None):
    """Import what is wrapped later."""
    import twom_dist.jobs
    import twom_dist.jobs.writing  # noqa: F401


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def fill_up():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def doze():
    time.sleep(0.05)


@contextmanager
def interference(client, stage, before, victim=None):
    """Wrap a stage on all workers, or on one, which dies of it."""
    client.run(load)
    client.run(wrap, stage, before, workers=None if victim is None else [victim])
    try:
        yield
    finally:
        wait_until(lambda: victim not in client.nthreads(), 60)
        wait_until(lambda: len(client.nthreads()) == WORKERS, 60)
        client.run(load)
        client.run(unwrap, stage)


def pause(dask_worker):
    # Else the next look at its memory would let it go on.
    dask_worker.memory_manager.memory_pause_fraction = False
    dask_worker.status = Status.paused


def unpause(dask_worker):
    dask_worker.memory_manager.memory_pause_fraction = 0.8
    dask_worker.status = Status.running


def task_names(client):
    known = client.run_on_scheduler(
        lambda dask_scheduler: list(map(str, dask_scheduler.tasks))
    )
    return [name for name in known if "twom-" in name]


# --- workers --------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["C.zarr", "C.h5"])
@pytest.mark.parametrize("stage", STAGES)
def test_a_worker_killed_at_any_stage_costs_time_alone(client, files, stage, output):
    if stage == "writing" and output == "C.h5":
        pytest.skip("this process writes HDF5")
    (victim, *_) = client.run(os.getpid)
    with interference(client, stage, die, victim):
        multiply(client, output)
    assert same_bits(read(output), td.gemm(*files))
    assert not list(Path().glob(".*"))


def test_a_worker_that_joins_late_is_no_harm(client, files, monkeypatch):
    def cut(*args, **kwargs):
        return lay_out(*args[:2], Cluster(2, 1, 2**18), **kwargs)

    def grow(progress):
        if progress.done == 3:
            client.cluster.scale(WORKERS + 1)
        if progress.done == 4:
            client.wait_for_workers(WORKERS + 1, timeout=60)

    monkeypatch.setattr("twom_dist.jobs.job.lay_out", cut)
    summary = multiply(client, progress=grow)
    assert summary.waves > 1
    assert same_bits(read("C.zarr"), td.gemm(*files))
    client.cluster.scale(WORKERS)
    wait_until(lambda: len(client.nthreads()) == WORKERS)


def test_a_paused_worker_gives_its_tasks_away(client, files, monkeypatch):
    monkeypatch.setattr(plugin, "PAUSE_SECONDS", 0.3)
    (victim, *_) = client.run(os.getpid)

    def pause_one(progress):
        if progress.done == 2:
            client.run(pause, workers=[victim])

    with interference(client, "product", doze):
        start = time.monotonic()
        try:
            multiply(client, progress=pause_one)
        finally:
            client.run(unpause, workers=[victim])
        assert time.monotonic() - start < 20
    assert same_bits(read("C.zarr"), td.gemm(*files))
    wait_until(lambda: not task_names(client))


def test_a_short_pause_moves_nothing(client, files):
    (victim, *_) = client.run(os.getpid)

    def pause_one(progress):
        if progress.done == 2:
            client.run(pause, workers=[victim])
        if progress.done == 6:
            client.run(unpause, workers=[victim])

    multiply(client, progress=pause_one)
    assert same_bits(read("C.zarr"), td.gemm(*files))


def test_workers_that_all_stay_paused_are_told_of(client, files, impatient):
    before = contents(Path())

    def pause_all(progress):
        if progress.done == 2:
            client.run(pause)

    try:
        sentence = r"dask has paused 3 workers for .*in use; give each more memory"
        with pytest.raises(StoreError, match=sentence):
            multiply(client, progress=pause_all)
    finally:
        client.run(unpause)
    wait_until(lambda: not task_names(client))
    assert contents(Path()) == before


def test_workers_that_die_again_and_again_end_the_job(client, files, monkeypatch):
    # As out of memory, which Linux answers with SIGKILL, and dask near the limit.
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", 0)
    before = contents(Path())
    (victim, *_) = client.run(os.getpid)
    with (
        interference(client, "product", die, victim),
        pytest.raises(KilledWorker),
    ):
        multiply(client)
    wait_until(lambda: not task_names(client))
    assert contents(Path()) == before


@pytest.mark.parametrize("output", ["C.zarr", "C.npy"])
def test_a_disk_that_fills_up_ends_the_job_in_a_sentence(client, files, output):
    before = contents(Path())
    with (
        interference(client, "writing", fill_up),
        pytest.raises(OSError, match="No space left on device"),
    ):
        multiply(client, output)
    wait_until(lambda: not task_names(client))
    assert contents(Path()) == before


def test_after_some_room_was_made_the_job_goes_on(
    files, monkeypatch, every_tile_recorded
):
    written = []

    def write(draft, region, values):
        if len(written) >= 7:
            fill_up()
        written.append(region)
        plain(draft, region, values)
        time.sleep(0.01)

    monkeypatch.setattr("twom_dist.jobs.driver.current_client", lambda: None)
    plain = _npy.write
    with monkeypatch.context() as patch:
        patch.setattr(_npy, "write", write)
        with pytest.raises(StoreError, match=r"No space left .* free some") as caught:
            multiply(None, "C.npy")
    (note,) = caught.value.__notes__
    assert "of 30 tiles are kept in" in note
    assert not Path("C.npy").exists()
    assert multiply(None, "C.npy", resume=True).resumed > 0
    assert same_bits(read("C.npy"), td.gemm(*files))


def test_an_output_whose_folder_goes_is_told_of(files):
    os.mkdir("out")

    def move(progress):
        if progress.done == 2:
            os.rename("out", "elsewhere")

    for output in ("out/C.zarr", "out/C.npy"):
        with pytest.raises(StoreError, match="No such file or directory"):
            multiply(None, output, progress=move)
        os.rename("elsewhere", "out")
        assert not list(Path("out").glob("C*"))


# --- schedulers -----------------------------------------------------------------------


@contextmanager
def remote_cluster(workers):
    """Yield the address of a scheduler, and the processes: it, then its workers."""
    command = [sys.executable, "-m", "dask"]
    file = Path("dask.json").resolve()
    flags = ["--scheduler-file", str(file), "--no-dashboard"]
    options = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "env": {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    }
    scheduler = [*command, "scheduler", *flags, "--port", "0", "--host", "127.0.0.1"]
    worker = [*command, "worker", *flags, "--nthreads", "1", "--host", "127.0.0.1"]
    processes = [subprocess.Popen(scheduler, **options)]
    try:
        wait_until(file.exists)
        for _ in range(workers):
            processes.append(subprocess.Popen(worker, **options))
        yield str(file), processes
    finally:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in processes:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=10)


ENDINGS = {
    "killed": (signal.SIGKILL, "went away"),
    "stopped": (signal.SIGSTOP, "have not answered for 2 s; start them again"),
    "without workers": (None, "has had no worker for 1.5 s; start some"),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_lost_cluster_ends_the_job_and_another_one_finishes_it(
    files, impatient, every_tile_recorded, capsys, ending
):
    number, sentence = ENDINGS[ending]
    with remote_cluster(workers=1) as (file, (scheduler, worker)):
        client = Client(scheduler_file=file, set_as_default=False, timeout=5)
        client.wait_for_workers(1, timeout=60)

        def end(progress):
            if progress.done == 5:
                if number is None:
                    worker.terminate()
                else:
                    scheduler.send_signal(number)

        with interference_once(client):
            start = time.monotonic()
            with pytest.raises(StoreError, match=sentence) as caught:
                multiply(client, progress=end)
            assert time.monotonic() - start < 25
        scheduler.send_signal(signal.SIGCONT)
        scheduler.kill()
        client.close(timeout=2)
    assert "of 30 tiles are kept" in caught.value.__notes__[0]
    call = CommandLine(capsys)
    flags = ("-o", "C.zarr", "--workers", "0", "--resume")
    code, out, err = call("gemm", "A.zarr", "B.npy", *flags)
    assert (code, err) == (0, "")
    assert "of them from before" in out
    assert same_bits(read("C.zarr"), td.gemm(*files))


@contextmanager
def interference_once(client):
    """Slow the one worker down."""
    client.run(load)
    client.run(wrap, "product", doze)
    yield
