"""A Slurm of two nodes on this machine, with two GPUs each that are none.

Debian's build runs several slurmd on one host. Files of GPUs must be character devices;
nobody opens them.
"""

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from tests.support.jobs import wait_until

_ASK_SECONDS = 0.3  # from one command of Slurm's to the next, which take a core's time
_SLURM_CONF = """
ClusterName=two
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=2000
MpiDefault=none
MailProg=/bin/true
GresTypes=gpu
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} {node}
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} {node}
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def _path():
    """Return the PATH of this moment, which tests change, with sbin at its end."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def why_not():
    if not all(
        shutil.which(x, path=_path()) for x in ("munged", "slurmctld", "slurmd")
    ):
        return "Slurm is missing: apt-get install slurm-wlm munge"
    if os.geteuid() != 0:
        return "only root may start slurmd and make device files"
    return None


class Slurm:
    """The daemons in a folder, and jobs on them."""

    def __init__(self, folder):
        self.folder = folder

    @property
    def environment(self):
        conf = str(self.folder / "slurm.conf")
        return {**os.environ, "PATH": _path(), "SLURM_CONF": conf}

    def __call__(self, *command):
        done = subprocess.run(
            list(map(str, command)),
            env=self.environment,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def submit(self, *arguments):
        return self("sbatch", "--parsable", "--output=job.out", *arguments)

    def ask(self, job, field):
        """Return what `scontrol` says of a job, such as its JobState."""
        told = self("scontrol", "show", "job", "-o", job).split()
        return dict(x.split("=", 1) for x in told if "=" in x)[field]

    def wait(self, job):
        """Return the last state of a job, its exit code and its output."""
        # `sbatch --wait` asks less and less often, up to half a minute apart.
        ended = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")
        wait_until(lambda: self.ask(job, "JobState") in ended, every=_ASK_SECONDS)
        code = int(self.ask(job, "ExitCode").partition(":")[0])
        return self.ask(job, "JobState"), code, Path("job.out").read_text()


def _configure(folder):
    folder.chmod(0o711)
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o600)
    for number in (0, 1):
        device = os.makedev(195, number)  # as NVIDIA's
        os.mknod(folder / f"nvidia{number}", 0o020600, device)
    for name in ("state", "n1", "n2"):
        (folder / name).mkdir()
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(socket.socket())) for _ in range(3)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        ports = [each.getsockname()[1] for each in sockets]
    text = _SLURM_CONF.format(
        host=socket.gethostname(),
        user=getpass.getuser(),
        folder=folder,
        ports=ports,
        node="CPUs=2 RealMemory=8000 Gres=gpu:2",
    )
    (folder / "slurm.conf").write_text(text)
    gpus = f"AutoDetect=off\nNodeName=n[1-2] Name=gpu File={folder}/nvidia[0-1]\n"
    (folder / "gres.conf").write_text(gpus)


@contextmanager
def running_slurm():
    # Short: the name of a socket has at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    slurm, daemons = Slurm(folder), []
    files = {"socket": "socket", "key-file": "key", "pid-file": "pid"}
    files |= {"log-file": "log", "seed-file": "seed"}

    def start(*command):
        options = {"env": slurm.environment, "start_new_session": True}
        with open(folder / f"{len(daemons)}.out", "wb") as log:
            options |= {"stdout": log, "stderr": log}
            daemons.append(subprocess.Popen(command, **options))

    try:
        _configure(folder)
        # --force: root, and a socket in a folder that others may not list.
        options = [f"--{x}={folder}/munge.{name}" for x, name in files.items()]
        start("munged", "--foreground", "--force", *options)
        wait_until((folder / "munge.socket").exists)
        start("slurmctld", "-D", "-c")
        start("slurmd", "-D", "-c", "-N", "n1")
        start("slurmd", "-D", "-c", "-N", "n2")
        idle = ["idle"] * 2
        wait_until(
            lambda: slurm("sinfo", "-hNo", "%T").split() == idle, every=_ASK_SECONDS
        )
        yield slurm
    finally:
        slurm("scancel", "--state=PENDING,RUNNING")
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(folder)
