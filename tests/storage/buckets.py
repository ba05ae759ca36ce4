"""A local S3 server and buckets of its own for each test."""

from __future__ import annotations

import uuid
from collections.abc import Generator
from contextlib import contextmanager
from typing import NamedTuple


class Bucket(NamedTuple):
    """A store in an empty bucket."""

    url: str
    """As TRIVET_STORE has it."""
    environment: dict[str, str]
    """How to get there: never part of the URL."""


@contextmanager
def s3() -> Generator[str]:
    """The address of a server in this process."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def bucket_of(server: str, *, key: str = "test", secret: str = "test") -> Bucket:
    """A new bucket."""
    import s3fs

    environment = {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    name = f"trivet-{uuid.uuid4().hex}"
    s3fs.S3FileSystem.clear_instance_cache()
    options = {"endpoint_url": server}
    s3fs.S3FileSystem(key=key, secret=secret, client_kwargs=options, use_listings_cache=False).mkdir(name)
    return Bucket(f"s3://{name}/store", environment)
