"""What is in the wheel, and that its launch scripts come out of it."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

import twom_dist as td

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parent.parent


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sources(folder):
    """List what belongs to a folder of the repository, caches left out."""
    found = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    return {path.as_posix() for path in found if "__pycache__" not in path.parts}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel from the source distribution, as an installer may."""
    folder = tmp_path_factory.mktemp("dist")
    build = (sys.executable, "-m", "hatchling", "build", "-d", folder)
    run(*build, "-t", "sdist", cwd=ROOT)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    run(*build, "-t", "wheel", cwd=folder / archive.name.removesuffix(".tar.gz"))
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_has_all_of_the_package_and_the_scripts_and_no_more(wheel):
    about = f"twom_dist-{td.__version__}.dist-info/"
    expected = {f"twom_dist/{name}" for name in sources(ROOT / "twom_dist")}
    expected |= {f"twom_dist/scripts/{name}" for name in sources(ROOT / "cluster")}
    for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"):
        expected.add(about + name)
    assert set(ZipFile(wheel).namelist()) == expected
    # Were they not on the disk, they would not be missed above.
    suffixes = {Path(name).suffix for name in expected}
    assert {".py", ".yaml", ".onnx", ".cu", ".cuh", ".sh", ".sbatch"} <= suffixes
    assert "twom_dist/py.typed" in expected


def test_an_installed_wheel_writes_scripts_that_run(wheel, tmp_path):
    site, folder = tmp_path / "site", tmp_path / "my scripts"
    alone = ("--no-deps", "--no-index", "--no-compile", "--target", site)
    run(sys.executable, "-m", "pip", "install", "-q", *alone, wheel)
    python = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    command = (sys.executable, "-m", "twom_dist", "scripts", folder)
    run(*command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": python})
    modes = {path.name: path.stat().st_mode & 0o111 for path in folder.iterdir()}
    cluster = ROOT / "cluster"
    assert modes == {
        name: (cluster / name).stat().st_mode & 0o111 for name in sources(cluster)
    }
    for script in ("local_cuda.sh", "slurm.sbatch", "pbs.sh", "lsf.sh"):
        assert run(folder / script, "--help", cwd=tmp_path).startswith(script)
