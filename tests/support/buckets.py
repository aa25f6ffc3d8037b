"""A server of S3 on the loopback address."""

import gc
import subprocess
import sys
import warnings
from contextlib import contextmanager

import pytest
import zarr
from fsspec.core import url_to_fs

SERVER = """if True:
    import logging
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server
    app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, app, True)
    print(server.server_port, flush=True)
    server.serve_forever()
"""


@contextmanager
def serve_bucket(name):
    """Start a server with a bucket, which everything in this process uses; its URL."""
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    port = server.stdout.readline().strip()
    assert port, "the server has ended: see what it wrote"
    settings = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch, server:
        try:
            for setting, value in settings.items():
                patch.setenv(setting, value)
            fs, _ = url_to_fs(f"s3://{name}")
            fs.mkdir(name)
            yield f"s3://{name}"
        finally:
            server.terminate()
        # zarr leaves the sessions of its file systems open.
        type(fs).clear_instance_cache()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def save(url, values, name=None):
    chunks = (16, 16)
    zarr.create_array(url, name=name, data=values, chunks=chunks, overwrite=True)
