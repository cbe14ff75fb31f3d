"""Optimizer process next to a server: it is restarted, and ends with the server. A stub replaces the program."""

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from interbed.catalog.server.auth.issued_tokens import OptimizerIdentity
from interbed.catalog.server.auth.principals import AuthenticationError, Credentials, Mechanism, checked_principal
from interbed.catalog.server.ops.observers import DATABASE_VARIABLE, OptimizerBeside
from interbed.catalog.server.process.command import server
from interbed.catalog.server.settings import ServerSettings
from interbed.catalog.server.threads import ThreadDeaths
from tests.support.certificates import certificate_of
from tests.support.waits import at_most

SECONDS_MAX = at_most(60)

PROGRAM = f"""
import os, sys
with open(sys.argv[1], "w") as out:
    print(os.getpid(), os.environ["{DATABASE_VARIABLE}"], *sys.argv[2:], file=out)
sys.stdin.read()
with open(sys.argv[1], "w") as out:
    print(os.getpid(), "ended", file=out)
"""


class ReportPipe:
    """Named pipe on which the program reports how it was started."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        # Open for writing as well, so that the pipe is not closed between two programs.
        self._file = os.open(path, os.O_RDWR)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._file, selectors.EVENT_READ)

    def line(self) -> tuple[int, str]:
        """Return the id of the process that writes the next line, and the line."""
        assert self._selector.select(SECONDS_MAX), "the program said nothing"
        pid, _, text = os.read(self._file, 4096).decode().partition(" ")
        return int(pid), text.rstrip("\n")

    def close(self) -> None:
        self._selector.close()
        os.close(self._file)


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[ReportPipe]:
    made = ReportPipe(tmp_path / "said")
    yield made
    made.close()


def new_optimizer(
    pipe: ReportPipe, settings: ServerSettings, address: tuple[str, int] = ("127.0.0.1", 9083), program: str = PROGRAM
) -> OptimizerBeside:
    command = (sys.executable, "-c", program, str(pipe.path))
    return OptimizerBeside(settings, address, ThreadDeaths(), command=command)


def test_the_program_gets_the_addresses_of_the_server_and_its_database(pipe: ReportPipe) -> None:
    settings = ServerSettings(db="sqlite:///m.db", optimizer="on", optimizer_groups=Path("groups.toml"))
    optimizer = new_optimizer(pipe, settings, ("0.0.0.0", 9999))
    optimizer.start()
    _, said = pipe.line()
    optimizer.stop()
    assert said == (
        "sqlite:///m.db -o metastore=hive -o uri=thrift://127.0.0.1:9999 --until-stdin-ends "
        "--groups groups.toml --host 127.0.0.1 --port 0"
    )


def test_a_killed_process_is_replaced(pipe: ReportPipe) -> None:
    optimizer = new_optimizer(pipe, ServerSettings(optimizer="on"))
    optimizer.start()
    first, _ = pipe.line()
    os.kill(first, signal.SIGKILL)
    second, _ = pipe.line()
    assert second == optimizer.pid != first
    optimizer.stop()


SERVER = """
import signal, sys
from interbed.catalog.server.auth.issued_tokens import OptimizerIdentity
from interbed.catalog.server.auth.principals import AuthenticationError, Credentials, Mechanism, checked_principal
from interbed.catalog.server.ops.observers import OptimizerBeside
from interbed.catalog.server.settings import ServerSettings
from interbed.catalog.server.threads import ThreadDeaths
command = (sys.executable, "-c", *sys.argv[1:])
OptimizerBeside(ServerSettings(optimizer="on"), ("127.0.0.1", 9083), ThreadDeaths(), command=command).start()
signal.pause()
"""


def test_the_process_ends_when_its_server_is_killed(pipe: ReportPipe) -> None:
    with subprocess.Popen([sys.executable, "-c", SERVER, PROGRAM, str(pipe.path)]) as server:
        started, _ = pipe.line()
        server.kill()
    assert pipe.line() == (started, "ended")


def test_stop_waits_for_the_end_of_the_process(pipe: ReportPipe) -> None:
    optimizer = new_optimizer(pipe, ServerSettings(optimizer="on"))
    optimizer.start()
    pid, _ = pipe.line()
    optimizer.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_an_optimizer_with_an_identity_gets_its_token_on_standard_input(pipe: ReportPipe) -> None:
    settings = ServerSettings(host="0.0.0.0", optimizer="on", authentication="token", transport="framed")
    identity = OptimizerIdentity()
    program = PROGRAM.replace("*sys.argv[2:]", "*sys.argv[2:], sys.stdin.readline().strip()")
    command = (sys.executable, "-c", program, str(pipe.path))
    optimizer = OptimizerBeside(settings, ("127.0.0.1", 7), ThreadDeaths(), identity=identity, command=command)
    optimizer.start()
    _, said = pipe.line()
    assert optimizer.pid is not None
    assert identity.token not in " ".join(psutil.Process(optimizer.pid).cmdline())
    assert identity.token not in "".join(psutil.Process(optimizer.pid).environ().values())
    optimizer.stop()
    arguments, _, options = said.partition("{")
    assert "uri=thrift://127.0.0.1:7 --until-stdin-ends --options-from-stdin --host 127.0.0.1 --port 0" in arguments
    assert json.loads("{" + options) == {
        "hive.metastore.client.auth.mode": "PLAIN",
        "hive.metastore.client.plain.username": "interbed-optimizer",
        "token": identity.token,
    }


def test_the_identity_of_the_optimizer_is_its_name_and_token() -> None:
    identity = OptimizerIdentity()
    right = Credentials(user=identity.user, password=identity.token)
    found = identity.authenticate(right)
    assert (found.name, found.mechanism) == ("interbed-optimizer", Mechanism.OPTIMIZER)
    for wrong in (
        Credentials(),
        Credentials(bearer=identity.token),
        Credentials(user="root", password=identity.token),
        Credentials(user=identity.user, password=OptimizerIdentity().token),
        Credentials(user=identity.user, certificate=certificate_of(identity.user)),
    ):
        with pytest.raises(AuthenticationError, match="for the optimizer beside the server alone"):
            identity.known(wrong)
    assert identity.token not in repr(identity)
    with pytest.raises(AuthenticationError, match="the server's own optimizer"):
        checked_principal("Interbed-Optimizer", "The user")


def test_the_option_without_a_value_turns_the_optimizer_on() -> None:
    said = CliRunner().invoke(server, ["config", "--optimizer", "--json"])
    assert json.loads(said.output)["optimizer"]["value"] == "on"
