"""Encrypted connections, and what becomes of wrong files."""

import click
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


def tls_options(folder, ca="ca", cert="cert", key="key"):
    names = {"--tls-ca-file": ca, "--tls-cert": cert, "--tls-key": key}
    chosen = {option: name for option, name in names.items() if name}
    return [w for o, name in chosen.items() for w in (o, f"{folder}/{name}.pem")]


def test_a_product_over_encrypted_connections(folder, scheduler, certificates, call):
    to = ("--scheduler", scheduler)
    code, _, err = call(*A_TIMES_B, *to, *tls_options(certificates))
    assert (code, err) == (0, "")
    assert same_bits(read("C.zarr"), td.gemm(read("A.zarr"), read("B.zarr")))


def test_wrong_files_are_refused(folder, scheduler, certificates, call):
    (certificates / "text.pem").write_text("no certificate\n")
    before = contents(folder)
    for names, code in (
        ({"ca": "none"}, click.UsageError),
        ({"cert": "text"}, "bad-tls-files"),
        ({"key": "text"}, "bad-tls-files"),
        ({"key": "other"}, "bad-tls-files"),
        ({"ca": None}, "bad-tls-files"),
        ({"ca": None, "cert": None, "key": None}, "bad-tls-files"),
        ({"ca": "other"}, "no-scheduler"),
    ):
        options = ("--scheduler", scheduler, "--timeout", "3")
        files = tls_options(certificates, **names)
        call.assert_refuses(*A_TIMES_B, *options, *files, why=code)
        assert contents(folder) == before
    for to in (("--workers", "0"), ("--scheduler", "tcp://127.0.0.1:9")):
        flags = (*to, *tls_options(certificates, ca=None))
        call.assert_refuses(*A_TIMES_B, *flags, why="tls-without-encryption")
