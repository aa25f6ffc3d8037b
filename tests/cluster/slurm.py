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
import time
from contextlib import ExitStack
from pathlib import Path

DAEMONS = ("munged", "slurmctld", "slurmd")
_NVIDIA = 195  # the major number of its devices

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
_GRES_CONF = """
AutoDetect=off
NodeName=n[1-2] Name=gpu File={folder}/nvidia[0-1]
"""


def _path() -> str:
    """Where the daemons may be: sbin is not on everybody's PATH."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def why_not() -> str | None:
    """Say why there can be no Slurm here."""
    missing = [name for name in DAEMONS if shutil.which(name, path=_path()) is None]
    if missing:
        return f"{', '.join(missing)} missing: apt-get install slurm-wlm munge"
    if os.geteuid() != 0:
        return "only root may start slurmd and make device files"
    return None


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class Slurm:
    """The daemons, and jobs on them; a context manager."""

    def __init__(self) -> None:
        # Short: the name of a socket has at most 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Slurm":
        try:
            self._configure()
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self("scancel", "--state=PENDING,RUNNING")
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder)

    @property
    def environment(self) -> dict[str, str]:
        """What tells Slurm's commands, and jobs, of this one."""
        conf = str(self.folder / "slurm.conf")
        return {**os.environ, "PATH": _path(), "SLURM_CONF": conf}

    def _configure(self) -> None:
        folder = self.folder
        folder.chmod(0o711)
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o600)
        for number in (0, 1):
            device = os.makedev(_NVIDIA, number)
            os.mknod(folder / f"nvidia{number}", 0o020600, device)
        for name in ("state", "n1", "n2"):
            (folder / name).mkdir()
        text = _SLURM_CONF.format(
            host=socket.gethostname(),
            user=getpass.getuser(),
            folder=folder,
            ports=_free_ports(3),
            node="CPUs=2 RealMemory=8000 Gres=gpu:2",
        )
        (folder / "slurm.conf").write_text(text)
        (folder / "gres.conf").write_text(_GRES_CONF.format(folder=folder))

    def _start(self) -> None:
        files = {
            "--socket": "munge.socket",
            "--key-file": "munge.key",
            "--pid-file": "munge.pid",
            "--log-file": "munge.log",
            "--seed-file": "munge.seed",
        }
        options = [f"{option}={self.folder / name}" for option, name in files.items()]
        # --force: root, and a socket in a folder that others may not list.
        self._daemon("munged", "--foreground", "--force", *options)
        self._wait_until(lambda: (self.folder / "munge.socket").exists())
        self._daemon("slurmctld", "-D", "-c")
        self._daemon("slurmd", "-D", "-c", "-N", "n1")
        self._daemon("slurmd", "-D", "-c", "-N", "n2")
        self._wait_until(lambda: self("sinfo", "-hNo", "%T").split() == ["idle"] * 2)

    def _daemon(self, name: str, *arguments: str) -> None:
        number = len(self._daemons)
        with open(self.folder / f"{name}-{number}.out", "wb") as log:
            daemon = subprocess.Popen(
                [shutil.which(name, path=_path()) or name, *arguments],
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._daemons.append(daemon)

    def _wait_until(self, condition, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                logs = sorted(self.folder.glob("*.out"))
                raise TimeoutError("\n".join(log.read_text()[-500:] for log in logs))
            time.sleep(0.3)  # most conditions start one of Slurm's commands

    def __call__(self, *command: str) -> str:
        """Run one of Slurm's commands and return what it prints."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True
        )
        return done.stdout

    def submit(self, *arguments: object) -> "Job":
        """Submit a job from the current folder."""
        done = subprocess.run(
            ["sbatch", "--parsable", "--output=job.out", *map(str, arguments)],
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return Job(self, done.stdout.strip())


class Job:
    """One that was submitted."""

    def __init__(self, slurm: Slurm, number: str) -> None:
        self._slurm = slurm
        self.number = number

    def __getitem__(self, field: str) -> str:
        """Return what `scontrol` says, such as ``job["JobState"]``."""
        told = self._slurm("scontrol", "show", "job", "-o", self.number).split()
        return next(each for each in told if each.startswith(field + "=")).partition(
            "="
        )[2]

    def limit(self, minutes: int) -> None:
        """Have the job end so many minutes after its start."""
        self._slurm(
            "scontrol", "update", f"JobId={self.number}", f"TimeLimit={minutes}"
        )

    def cancel(self) -> None:
        """End the job from outside."""
        self._slurm("scancel", self.number)

    def wait(self, seconds: float = 120) -> tuple[str, int, str]:
        """Return its last state, exit code and output."""
        # `sbatch --wait` asks less and less often, up to half a minute apart.
        self._slurm._wait_until(
            lambda: self["JobState"] in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"),
            seconds,
        )
        code = int(self["ExitCode"].partition(":")[0])
        return self["JobState"], code, Path("job.out").read_text()
