"""The command `interbed server`, which runs a server with the settings from all sources; and such a server for tests.

`metastore()` is a real catalog server for the length of a `with` block: for tests, demos and notebooks. It runs in a
process of its own, on a free port of 127.0.0.1, and is stopped when the block ends.
"""

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

import click

from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.setting_kinds import ENVIRONMENT_PREFIX, NO_AUTHENTICATION, ServerSettingsError
from interbed.catalog.server.settings import SETTINGS, ServerSettings, load
from interbed.catalog.server.shown_settings import shown, warnings_for, without_password
from interbed.storage.base.errors import InterbedError
from interbed.storage.base.terminal import SuggestingGroup, print_line

if TYPE_CHECKING:
    from interbed.catalog.server.process.main import Server

logger = logging.getLogger(__name__)

START_SECONDS_MAX = 60.0
"""Time for the start of the server: well under a second on a quiet machine."""

STOP_SECONDS_MAX = 30.0

_SAID_CHARACTERS_MAX = 2000

_READY_PREFIX = "interbed catalog server listening on "
_HTTP_PREFIX = "HTTP interfaces at "


def _settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add an option for each setting, absent by default: a missing one is set by another source."""
    # Click shows options in the order of its list, which decorators fill from the end.
    for setting in reversed(list(SETTINGS.values())):
        default = "" if setting.default is None else f"  [default: {setting.default}]"
        command = click.option(
            setting.option,
            setting.name,
            type=click.Choice(setting.kind.choices, case_sensitive=False) if setting.kind.choices else str,
            is_flag=False,
            flag_value=setting.kind.bare,
            metavar=None if setting.kind.choices else setting.name.rpartition("_")[2].upper(),
            help=setting.help + default,
        )(command)
    command = click.option(
        "--no-authentication",
        is_flag=True,
        default=None,
        help="Serve every client that reaches the port, on any address; the setting authentication is none then.",
    )(command)
    command = click.option(
        "--hive-site",
        type=click.Path(path_type=Path),
        envvar="INTERBED_SERVER_HIVE_SITE",
        help="A hive-site.xml or metastore-site.xml; weaker than all other sources.",
    )(command)
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        envvar="INTERBED_SERVER_CONFIG",
        help="A TOML file with settings; weaker than INTERBED_SERVER_… variables and options.",
    )(command)


@click.group(name="server", cls=SuggestingGroup, invoke_without_command=True)
@_settings_options
@click.pass_context
def server(context: click.Context, /, **given: Any) -> None:
    """Run the catalog server: a Hive Metastore for Spark, Hive, Paimon and interbed itself.

    SIGTERM and Ctrl-C end it: no new connections, running requests are finished.
    """
    context.obj = given
    if context.invoked_subcommand is None:
        _serve(*_load(given))


@server.command()
@_settings_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def config(outer: dict[str, Any], /, *, as_json: bool, **given: Any) -> None:
    """Print the settings that a server would run with, and where each comes from. Passwords are hidden."""
    settings, sources = _load({**outer, **{name: value for name, value in given.items() if value is not None}})
    values = shown(settings)
    if as_json:
        click.echo(json.dumps({name: {"value": values[name], "source": sources[name]} for name in values}, indent=2))
        return
    texts = {name: "" if value is None else str(value) for name, value in values.items()}
    wide, value_width = max(map(len, texts)), max(map(len, texts.values()))
    for name, text in texts.items():
        print_line(f"{name:<{wide}}  {text:<{value_width}}  {sources[name]}")


def main() -> None:
    """Run the command as a program."""
    server()


def _load(given: dict[str, Any]) -> tuple[ServerSettings, dict[str, str]]:
    arguments = dict(given)
    file, site = arguments.pop("config"), arguments.pop("hive_site")
    if arguments.pop("no_authentication"):
        if arguments["authentication"]:
            raise click.UsageError("--no-authentication and --authentication exclude each other")
        arguments["authentication"] = NO_AUTHENTICATION
    try:
        return load(file, os.environ, arguments, site=site)
    except ServerSettingsError as error:
        raise click.ClickException(str(error)) from error


def _serve(settings: ServerSettings, sources: dict[str, str]) -> None:
    # A command that only prints its help imports none of this.
    from interbed.catalog.server.database.engine import parse_database_url
    from interbed.catalog.server.database.sqlite import readable_by_others
    from interbed.catalog.server.ops.logs import configure_logging
    from interbed.catalog.server.ops.vital_signs import allow_connections, end_at_last, leave_no_core_dump
    from interbed.catalog.server.process.main import HTTP_LINE, READY_LINE, run

    configure_logging(settings.log_level, settings.log_format)
    for warning in warnings_for(settings, sources):
        logger.warning("%s", warning)
    with suppress(MetastoreError, InterbedError):
        # An invalid url is reported when it is opened.
        url = parse_database_url(settings.db)
        if url.get_backend_name() == "sqlite" and (exposed := readable_by_others(url.database or "")) is not None:
            logger.warning("%s", exposed)
    allow_connections(settings.connections_max)
    if settings.core_dumps == "off":
        leave_no_core_dump()

    def ready(running: "Server") -> None:
        def end(signal_number: int, _frame: FrameType | None) -> None:
            logger.info("ending: signal %s", signal.Signals(signal_number).name)
            running.stop()
            end_at_last()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, end)
        host, port = running.address
        print(READY_LINE.format(host=_in_url(host), port=port), flush=True)
        if running.http_address is not None:
            host, port = running.http_address
            scheme = "http" if settings.tls_certificate is None else "https"
            print(HTTP_LINE.format(scheme=scheme, host=_in_url(host), port=port), flush=True)

    try:
        run(settings, on_ready=ready)
    except MetastoreError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"cannot listen on {settings.host}:{settings.port}: {error}") from error


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


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


def start_server(
    db: str,
    warehouse: str,
    *arguments: str,
    log: Path | None = None,
    start: Callable[..., "subprocess.Popen[str]"] = subprocess.Popen,
) -> RunningServer:
    """Start a server process with these arguments and wait until it listens. Its log goes to `log`, or to this
    process's stderr. Settings in the environment do not reach it. `start` has the parameters of subprocess.Popen.
    MetastoreError if it does not start.
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
        process = start(
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
