"""What is in the wheel, and that it multiplies and writes scripts where installed."""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.metadata import Metadata

import twom_dist as td
from tests.support.places import CLUSTER, ROOT

# As little as a process can have: no compiler on its path, and no GPU.
BARE = {"PATH": "", "CUDA_VISIBLE_DEVICES": "", "OPENBLAS_NUM_THREADS": "1"}
PRODUCT = """if True:
    import shutil
    import numpy as np
    import twom_dist as td
    assert not shutil.which("cc") and not shutil.which("nvcc")
    A = td.testing.random_matrix(20, 30)
    C = td.zgemm(A, A, op_b="C")
    assert np.allclose(C, A @ A.conj().T, rtol=1e-13)
    assert (C == td.zgemm(A, A, op_b="C", engine="reference")).all()
    print(td.__file__)
"""


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
    run("tar", "-xf", archive, "-C", folder)
    run(*build, "-t", "wheel", cwd=folder / archive.name.removesuffix(".tar.gz"))
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_has_all_of_the_package_and_the_scripts_and_no_more(wheel):
    about = f"twom_dist-{td.__version__}.dist-info/"
    expected = {f"twom_dist/{name}" for name in sources(ROOT / "twom_dist")}
    expected |= {f"twom_dist/scripts/{name}" for name in sources(CLUSTER)}
    for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"):
        expected.add(about + name)
    assert set(ZipFile(wheel).namelist()) == expected
    # Were they not on the disk, they would not be missed above.
    suffixes = {Path(name).suffix for name in expected}
    assert {".py", ".yaml", ".cu", ".cuh", ".tilebc", ".sh", ".sbatch"} <= suffixes
    assert "twom_dist/py.typed" in expected


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Install the wheel where nothing but its dependencies is; the folder."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, symlinks=True)
    places = {"base": str(folder), "platbase": str(folder)}
    site = Path(sysconfig.get_path("purelib", "venv", places))
    # Of a folder in a .pth file no such files are read: an editable install stays out.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python")
    run(*pip, "install", "-q", "--no-deps", "--no-index", "--no-compile", wheel)
    return folder, site / "twom_dist"


def test_metadata_are_those_of_the_standard(wheel):
    text = ZipFile(wheel).read(f"twom_dist-{td.__version__}.dist-info/METADATA")
    metadata = Metadata.from_email(text, validate=True)
    assert (metadata.name, str(metadata.version)) == ("twom-dist", td.__version__)
    assert metadata.description_content_type == "text/markdown"
    assert "](docs/" not in metadata.description


def test_an_installed_wheel_multiplies_without_compiler_and_gpu(installed, tmp_path):
    folder, package = installed
    product = (folder / "bin" / "python", "-I", "-W", "error", "-c", PRODUCT)
    found = run(*product, cwd=tmp_path, env=BARE | {"HOME": str(tmp_path)})
    assert Path(found.strip()).parent == package


def test_an_installed_wheel_writes_scripts_that_run(installed, tmp_path):
    scripts = tmp_path / "my scripts"
    run(installed[0] / "bin" / "twom-dist", "scripts", scripts, cwd=tmp_path, env=BARE)
    modes = {path.name: path.stat().st_mode & 0o111 for path in scripts.iterdir()}
    expected = {x: (CLUSTER / x).stat().st_mode & 0o111 for x in sources(CLUSTER)}
    assert modes == expected
    for script in ("local_cuda.sh", "slurm.sbatch", "pbs.sh", "lsf.sh"):
        assert run(scripts / script, "--help", cwd=tmp_path).startswith(script)
