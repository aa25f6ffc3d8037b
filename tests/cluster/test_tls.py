"""Encrypted connections, and what becomes of wrong files."""

import dask
import pytest
from distributed import Security

import twom_dist as td
from tests.command import CommandLine, contents, read, same_bits
from tests.jobs import local_workers

A_TIMES_B = ("gemm", "A.zarr", "B.zarr", "-o", "C.zarr")


@pytest.fixture(scope="module")
def scheduler(certificates):
    """Address of an encrypted scheduler with a worker."""
    pem = {name: str(certificates / f"{name}.pem") for name in ("ca", "cert", "key")}
    roles = ("client", "scheduler", "worker")
    security = Security(
        require_encryption=True,
        tls_ca_file=pem["ca"],
        **{f"tls_{role}_cert": pem["cert"] for role in roles},
        **{f"tls_{role}_key": pem["key"] for role in roles},
    )
    options = {"security": security, "protocol": "tls://", "host": "127.0.0.1"}
    with local_workers(1, processes=False, **options) as client:
        yield client.scheduler.address


@pytest.fixture
def call(capsys):
    return CommandLine(capsys)


def configure(folder, **files):
    """Set what dask's configuration says of TLS."""
    chosen = {"ca_file": "ca", "client.cert": "cert", "client.key": "key"} | files
    paths = {f"distributed.comm.tls.{x}": f"{folder}/{chosen[x]}.pem" for x in chosen}
    return dask.config.set(paths)


def test_a_product_over_encrypted_connections(folder, scheduler, certificates, call):
    with configure(certificates):
        code, _, err = call(*A_TIMES_B, "--scheduler", scheduler)
    assert (code, err) == (0, "")
    assert same_bits(read("C.zarr"), td.gemm(read("A.zarr"), read("B.zarr")))


def test_wrong_files_are_refused(folder, scheduler, certificates, call):
    (certificates / "text.pem").write_text("no certificate\n")
    before = contents(folder)
    to = ("--scheduler", scheduler, "--timeout", "3")
    call.assert_refuses(*A_TIMES_B, *to, why="no-scheduler")
    for files in (
        {"ca_file": "none"},
        {"client.cert": "text"},
        {"client.key": "other"},
        {"ca_file": "other"},
    ):
        with configure(certificates, **files):
            call.assert_refuses(*A_TIMES_B, *to, why="no-scheduler")
        assert contents(folder) == before
