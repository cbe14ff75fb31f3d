"""Real servers for tests and notebooks of one's own: a catalog server, up in about half a second, and a store.

    with interbed.testing.metastore() as uri:
        ...  # thrift://127.0.0.1:PORT, with a database and a warehouse that are gone afterwards
        uri.iceberg, uri.paimon  # the uris of its REST catalogs

    with interbed.testing.s3("lake") as store:
        lake = interbed.load_catalog("lake", warehouse="s3://lake/warehouse", **store)

As a fixture of pytest:

    @pytest.fixture(scope="session")
    def metastore_uri():
        with interbed.testing.metastore() as uri:
            yield uri

`metastore(db="postgresql://user@host/database", warehouse="file:/tmp/lake")` keeps metadata and data where they are
wanted. Tests that run in parallel each have a server of their own: it takes a free port and prints nothing.
"""

import http.client
import os
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from interbed.catalog.server.process.command import metastore
from interbed.storage.base.errors import InvalidInputError, MissingExtraError, StorageAccessError, is_installed

__all__ = ["metastore", "s3"]

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0
REQUEST_SECONDS_MAX = 10.0

_LINES_KEPT = 20
_INSTALL = "pip install 'moto[s3,server]'"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_LISTENING = re.compile(r"Running on http://127\.0\.0\.1:(\d+)")


@contextmanager
def s3(bucket: str = "lake", *, python: str | None = None) -> Iterator[dict[str, str]]:
    """A store with S3's interface and an empty bucket; yields the options that open it (docs/stores.md).

    It is moto's server, on a free port of 127.0.0.1, and keeps all in its memory: with the block it is gone. Nothing is
    printed, and any number may run at once. `python` is one that has moto, if it is another than this. Raises
    MissingExtraError without moto, StorageAccessError with what the server said when it does not come up.
    """
    if _BUCKET.fullmatch(bucket) is None:
        raise InvalidInputError(f"{bucket!r} is no name of a bucket: 3 to 63 of a-z, 0-9, '-' and '.'.")
    if python is None and not (is_installed("moto") and is_installed("flask")):
        raise MissingExtraError(f"interbed.testing.s3 needs moto's server: {_INSTALL}")
    process = subprocess.Popen(
        [python or sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # A group of its own, so that Ctrl-C at a test reaches the test before its store.
        start_new_session=True,
    )
    said = _ServerOutput(process)
    try:
        port = said.port()
        _make_bucket(port, bucket)
        yield {
            "s3.endpoint": f"http://127.0.0.1:{port}",
            "s3.access-key": "testing",
            "s3.secret-key": "testing",
            "s3.region": "us-east-1",
        }
    finally:
        # What it knows is in its memory alone, so that it need not be shut down.
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=STOP_SECONDS_MAX)
        said.end()


@dataclass(slots=True)
class _ServerOutput:
    """Output of a server, read by a thread until it ends."""

    process: "subprocess.Popen[str]"
    _lines: deque[str] = field(default_factory=lambda: deque(maxlen=_LINES_KEPT))
    _port: int | None = None
    _known: threading.Event = field(default_factory=threading.Event)
    _reader: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def port(self) -> int:
        """The port at which it listens, as soon as it does."""
        self._known.wait(timeout=START_SECONDS_MAX)
        if self._port is None:
            text = "".join(self._lines).strip()
            raise StorageAccessError(f"moto's server did not start ({_INSTALL}); it said: {text or 'nothing'}")
        return self._port

    def end(self) -> None:
        """The end, when the process has ended."""
        self._reader.join(timeout=STOP_SECONDS_MAX)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.append(line)
            if self._port is None and (found := _LISTENING.search(line)) is not None:
                self._port = int(found[1])
                self._known.set()
        self._known.set()


def _make_bucket(port: int, bucket: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REQUEST_SECONDS_MAX)
    try:
        connection.request("PUT", f"/{bucket}")
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise StorageAccessError(f"moto's server answers {answer.status} to a new bucket: {answer.read()[:300]!r}")
    finally:
        connection.close()
