"""Clusters of one machine: what is started, and who can connect."""

import os
import signal
import subprocess
import sys
from contextlib import closing, suppress
from functools import partial
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

import dask
import dask.array as da
import psutil
import pytest
from distributed import Security, default_client
from distributed.comm import connect

import twom_dist as td
from tests.support.command import CommandLine, make
from tests.support.expect import same_bits
from tests.support.jobs import METHOD, addresses, open_ports


def processes():
    """Every process that this one started and that is still there."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            # Python's own stays for the next spawn.
            if "resource_tracker" not in " ".join(process.cmdline()):
                found.add(process)
    return found


@pytest.fixture(autouse=True)
def spawned_workers():
    """Start workers as users do."""
    with dask.config.set({METHOD: "spawn"}):
        yield


PROFILER = "distributed.worker.profile.enabled"
# Of the scheduler, of workers, and of both.
PAGES = [
    *("/info/main/workers.html", "/json/counts.json", "/status"),
    *("/metrics", "/sitemap.json", "/health"),
]


def find_pages(port):
    """The web pages of dask that answer there."""
    found = set()
    for page in PAGES:
        asking = HTTPConnection(*port, timeout=5)
        # What listens for workers hangs up.
        with closing(asking), suppress(OSError, HTTPException):
            asking.request("GET", page)
            if asking.getresponse().status == 200:
                found.add(page)
    return found


def test_a_cluster_multiplies_agrees_and_leaves_nothing(capsys, tmp_path):
    before, ports = processes(), open_ports({os.getpid()})
    a, b = make(90, 70, 1), make(70, 50, 2)
    start = partial(td.local_cluster, n_workers=2, gpus=False)
    with dask.config.set({PROFILER: True}), start() as client:
        profiled = client.run(lambda dask_worker: [*dask_worker.periodic_callbacks])
        safe = sys.version_info >= (3, 12)
        assert all(("profile" in x) == safe for x in profiled.values())
        lazy = (da.from_array(x, chunks=40) for x in (a, b))
        # What workers are ready for first.
        product = td.zgemm(*lazy, engine="reference")
        assert same_bits(product.compute(), td.zgemm(a, b))
        limits = client.run(lambda dask_worker: dask_worker.memory_manager.memory_limit)
        assert sum(limits.values()) <= psutil.virtual_memory().total
        started = {process.pid for process in processes() - before}
        assert started >= set(client.run(os.getpid).values())
        # Ctrl-C, which a terminal sends to all, is for this process.
        masks = client.run(signal.pthread_sigmask, signal.SIG_BLOCK, ()).values()
        assert all(signal.SIGINT in mask for mask in masks)
        ports = open_ports({os.getpid(), *started}) - ports
        assert {port.ip for port in ports} == {"127.0.0.1"}
        assert not any(map(find_pages, ports))
        # Let the doctor look at two workers, and somebody else who has the credentials.
        report = td.doctor()
        rows = {finding.name: finding.found for finding in report.findings}
        assert report.ok, report
        assert rows["packages"] == "the same in all 4 processes"
        pem, address = tmp_path / "pem", client.scheduler.address
        names = ("ca_file", "client.cert")
        asked = ("doctor", "--scheduler", address, "--timeout")
        with dask.config.set({f"distributed.comm.tls.{x}": str(pem) for x in names}):
            assert CommandLine(capsys)(*asked, "1")[0] == 1
            for security in (Security.temporary(), client.security):
                pem.write_text(security.tls_client_key + security.tls_client_cert)
                known = security is client.security
                code, out, _ = CommandLine(capsys)(*asked, "60" if known else "1")
                assert code == (0 if known else 1)
        assert (code, f"2 at {address}" in out) == (0, True)
        # Try to come in without the credentials, or with others.
        places = client.scheduler.address, *addresses(client)
        for place in places:
            plain = place.replace("tls://", "tcp://"), Security()
            for address, security in (plain, (place, Security.temporary())):
                arguments = security.get_connection_args("client")
                with pytest.raises(OSError, match=r"(?i)tls|tcp"):
                    client.sync(connect, address, timeout=1, **arguments)
    assert processes() <= before


def test_a_cluster_that_is_kept_runs_until_it_is_closed():
    before = processes()
    given = {"n_workers": 1, "threads_per_worker": 2, "memory_limit": "1 GiB"}
    # Its own port may be that of somebody else's dashboard.
    given |= {"dashboard": True, "dashboard_address": "127.0.0.1:0"}
    cluster = td.local_cluster(**given, security=False)
    assert default_client() is cluster.client
    assert cluster.client.scheduler.address.startswith("tcp://127.0.0.1:")
    for told in ("workers=1, threads=2", cluster.client.dashboard_link):
        assert told in repr(cluster)
    place = urlsplit(cluster.client.dashboard_link)
    assert "/info/main/workers.html" in find_pages((place.hostname, place.port))
    for _ in range(2):
        cluster.close()
    assert processes() <= before
    with pytest.raises(ValueError, match="No client"):
        default_client()


def test_a_script_without_a_guard_says_what_it_lacks(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import twom_dist as td\ntd.local_cluster(n_workers=1)\n")
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert ended.returncode == 1
    assert '__name__ == "__main__"' in ended.stderr.splitlines()[-1]
