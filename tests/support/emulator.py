"""An Arm that qemu plays to single programs, with Debian's Python and PyPI's wheels.

All of it lies in `.venv-arm`, where kernels stay that were compiled once; no part of
this machine is changed.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from zipfile import ZipFile

from tests.support.places import ROOT

HOME = ROOT / ".venv-arm"
READY = HOME / "ready"
SUITE, PYTHON = "bookworm", "python3.11"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# What pip does not ask by itself: older names of what `manylinux_2_28` takes as well.
TAGS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")
APT = """\
APT::Architectures { "arm64"; "amd64"; };
APT::Architecture "arm64";
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Languages "none";
Dir::State "HOME/apt";
Dir::State::status "HOME/apt/status";
Dir::Cache "HOME/apt";
Dir::Etc "HOME/apt/etc";
"""
# For LLVM, which compiles for the CPU that Linux describes: qemu's name of it as well.
CPUS = {
    "Neoverse V2": (
        *("max", "0xd4f", "0x0"),
        "fp asimd aes pmull sha1 sha2 crc32 atomics asimddp sha3 sm4 sve sve2 sveaes "
        "svebitperm svesha3 svesm4 svei8mm svebf16 i8mm bf16",
    ),
    "Neoverse N1": (  # without products of int8 by matrices, and without SVE
        *("neoverse-n1", "0xd0c", "0x3"),
        "fp asimd aes pmull sha1 sha2 crc32 atomics asimddp",
    ),
}
CPUINFO = """\
processor\t: 0
Features\t: {}
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: {}
CPU part\t: {}
CPU revision\t: 0

"""


def why_not():
    """Say what this machine lacks to play an Arm, or None; `build` needs a network."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return "only Linux on x86-64 is tried as the host of the emulator"
    for program in ("apt-get", "dpkg"):
        if shutil.which(program) is None:
            return f"{program} is missing, which fetches packages of Debian"
    return None if os.path.exists(KEYRING) else "debian-archive-keyring is missing"


def build():
    """Fetch all that is needed, unless it is there; raise CalledProcessError."""
    if READY.exists():
        return
    apt = HOME / "apt"
    for folder in (
        "lists/partial",
        "archives/partial",
        "etc/apt.conf.d",
        "etc/preferences.d",
    ):
        (apt / folder).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    (apt / "etc" / "apt.conf").write_text(APT.replace("HOME", str(HOME)))
    source = f"deb [signed-by={KEYRING}] http://deb.debian.org/debian {SUITE} main\n"
    (apt / "etc" / "sources.list").write_text(source)
    own = {**os.environ, "APT_CONFIG": str(apt / "etc" / "apt.conf")}
    own |= {"DEBIAN_FRONTEND": "noninteractive"}

    def get(*arguments):
        command = ("apt-get", "-qq", *arguments)
        subprocess.run(command, env=own, cwd=apt, check=True, timeout=600)

    get("update")
    get("install", "-y", "--download-only", PYTHON, "libstdc++6", "libgomp1")
    get("download", "qemu-user-static:amd64")
    for package in apt.rglob("*.deb"):
        where = HOME / ("qemu" if "qemu" in package.name else "root")
        subprocess.run(("dpkg", "-x", package, where), check=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    tags = [x for tag in TAGS for x in ("--platform", f"{tag}_aarch64")]
    pip = (sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:")
    version = PYTHON.removeprefix("python")
    options = ("--python-version", version, "-d", HOME / "wheels", "psutil", "pytest")
    command = (*pip, *tags, *options, *project["dependencies"])
    subprocess.run(command, check=True, timeout=1800)
    for wheel in (HOME / "wheels").glob("*.whl"):
        ZipFile(wheel).extractall(HOME / "packages")
    READY.touch()


def python_on(cpu):
    """Return the beginning of a command, and its environment, of Python on a CPU."""
    name, part, variant, features = CPUS[cpu]
    described = HOME / "root" / "proc" / "cpuinfo"
    described.parent.mkdir(exist_ok=True)
    described.write_text(CPUINFO.format(features, variant, part))
    qemu, root = HOME / "qemu/usr/bin/qemu-aarch64-static", HOME / "root"
    environment = {
        "PATH": "",
        "HOME": str(HOME),
        "PYTHONPATH": f"{HOME / 'packages'}:{ROOT}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "NUMBA_CACHE_DIR": str(HOME / f"kernels-{name}"),
    }
    return (qemu, "-L", root, "-cpu", name, root / "usr/bin" / PYTHON), environment
