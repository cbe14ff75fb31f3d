"""A real catalog server for the length of a `with` block: for tests, demos and notebooks.

It runs in a process of its own, on a free port of 127.0.0.1, and is stopped when the block ends.
"""

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.setting_kinds import ENVIRONMENT_PREFIX
from interbed.catalog.server.settings import SETTINGS
from interbed.catalog.server.shown_settings import without_password

START_SECONDS_MAX = 60.0
"""Time for the start of the server: well under a second on a quiet machine."""

STOP_SECONDS_MAX = 30.0

_SAID_CHARACTERS_MAX = 2000

_READY_PREFIX = "interbed catalog server listening on "
_HTTP_PREFIX = "HTTP interfaces at "


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """A server process: `uri` for clients, `process` for tests that kill it. `http` is the address of the HTTP
    interfaces, None if they are not served.
    """

    uri: str
    process: subprocess.Popen[str]
    http: str | None = None


class MetastoreUri(str):
    """The uri of a catalog server, `thrift://127.0.0.1:PORT`, with the addresses of its REST catalogs."""

    __slots__ = ("_http",)
    _http: str

    def __new__(cls, uri: str, http: str) -> Self:
        """Make the uri; `http` is the address of the HTTP interfaces."""
        made = super().__new__(cls, uri)
        made._http = http
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        return type(self), (str(self), self._http)

    @property
    def iceberg(self) -> str:
        """The uri of the Iceberg REST catalog."""
        return f"{self._http}/iceberg"

    @property
    def paimon(self) -> str:
        """The uri of the Paimon REST catalog."""
        return f"{self._http}/paimon"


@contextmanager
def metastore(db: str | None = None, warehouse: str | None = None) -> Iterator[MetastoreUri]:
    """Run a catalog server and yield its uri, `thrift://127.0.0.1:PORT`; `.iceberg` and `.paimon` of it are the uris of
    the REST catalogs.

    `db` is a database url of `interbed server`, `warehouse` a location; a missing one is temporary and deleted
    afterwards. Nothing is printed. Any number may run at once, in threads or processes. MetastoreError, with the
    server's output, if it does not start.
    """
    with tempfile.TemporaryDirectory(prefix="interbed-metastore-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        log = directory / "server.log"
        running = start_server(
            db if db is not None else f"sqlite:///{directory / 'metastore.db'}",
            warehouse if warehouse is not None else f"file:{directory / 'warehouse'}",
            "--http-port",
            "0",
            log=log,
        )
        assert running.http is not None
        try:
            yield MetastoreUri(running.uri, running.http)
        finally:
            stop_server(running)


def start_server(db: str, warehouse: str, *arguments: str, log: Path | None = None) -> RunningServer:
    """Start a server process with these arguments and wait until it listens. Its log goes to `log`, or to this
    process's stderr. Settings in the environment do not reach it. MetastoreError if it does not start.
    """
    command = [
        sys.executable,
        "-m",
        "interbed.catalog.server.process.main",
        "--port",
        "0",
        "--warehouse",
        warehouse,
    ]
    with ExitStack() as stack:
        stderr = stack.enter_context(log.open("ab")) if log is not None else None
        process = subprocess.Popen(
            [*command, "--log-level", "INFO" if log is not None else "WARNING", *arguments],
            stdout=subprocess.PIPE,
            stderr=stderr,
            stdin=subprocess.DEVNULL,
            text=True,
            # Not on the command line, which every user of this machine may read: the url may have a password.
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)},
                SETTINGS["db"].variable: db,
            },
            # Ctrl-C in a terminal or notebook interrupts the owner, and the owner ends the server.
            start_new_session=True,
        )
    # A timer instead of a timed read, which pipes lack; the read returns by itself when the process dies.
    timer = threading.Timer(START_SECONDS_MAX, process.kill)
    timer.start()
    try:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        http = process.stdout.readline().strip() if line and "--http-port" in arguments else ""
    finally:
        timer.cancel()
        timer.join()
    if not line.startswith(_READY_PREFIX):
        process.kill()
        process.wait(timeout=STOP_SECONDS_MAX)
        process.stdout.close()
        said = log.read_text(errors="replace").strip()[-_SAID_CHARACTERS_MAX:] if log is not None else line
        raise MetastoreError(
            f"the catalog server did not start on {without_password(db)}; it said: {said or 'nothing'}"
        )
    return RunningServer(
        uri=line.removeprefix(_READY_PREFIX), process=process, http=http.removeprefix(_HTTP_PREFIX) or None
    )


def stop_server(running: RunningServer) -> int:
    """Ask the server to stop, kill it if it does not, and return its exit code."""
    process = running.process
    process.terminate()
    try:
        code = process.wait(timeout=STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait(timeout=STOP_SECONDS_MAX)
    if process.stdout is not None:
        process.stdout.close()
    return code
