"""`interbed optimizer run`: the service, with local workers. `interbed optimizer worker`: a worker of a remote service.

`run` prints each process that has ended as a line on standard output. With `--json` the lines are objects: first
{"event": "listening", "uri": …}, then {"event": "process", …}. On a terminal a line on standard error shows progress.

SIGTERM and SIGINT end both, with --until-stdin-ends the end of standard input ends `run`.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from interbed.catalog.client.cli.group import CatalogChoice, pairs
from interbed.optimizer.cli.common import db_option
from interbed.storage.base.terminal import print_line

if TYPE_CHECKING:
    from interbed.optimizer.flow.process import Process
    from interbed.optimizer.scheduling.needs import SchedulerSettings
    from interbed.optimizer.service.service import Groups


_LOCK_TIMEOUT = "10 s"
"""How long a commit waits for the lock of a table, in place of the catalog's eight minutes."""

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
log_level = click.option(
    "--log-level",
    type=click.Choice(LOG_LEVELS, case_sensitive=False),
    default="WARNING",
    show_default=True,
    help="What is logged on standard error, from that level on.",
)


@click.command()
@db_option
@click.option(
    "--groups",
    "groups_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file of resource groups, TOML; it is read again when it changes.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=0),
    metavar="N",
    help="Local workers of the group default, without a file of groups; 1 if not given.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="The address of the optimizer for workers.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="PORT", help="The port for workers; a free one for 0."
)
@click.option("--metrics-port", type=click.IntRange(0, 65535), metavar="PORT", help="Serve Prometheus's metrics here.")
@click.option(
    "--metrics-host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address of the metrics."
)
@click.option(
    "--interval",
    type=click.FloatRange(min=0.05),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to look for changed tables.",
)
@click.option("--until-idle", is_flag=True, help="End when no table needs anything and nothing runs.")
@click.option("--until-stdin-ends", is_flag=True, help="End with standard input: for a parent process.")
@click.option("--options-from-stdin", is_flag=True, hidden=True, help="Read options, a line of JSON, from a parent.")
@click.option("--setting", "settings", multiple=True, hidden=True, metavar="KEY=MILLIS", help="Of the scheduler.")
@click.option("--look", type=click.FloatRange(min=0.05), default=5.0, hidden=True, help="Of a standby.")
@log_level
@click.option("--json", "as_json", is_flag=True, help="Print each process that has ended as a JSON object on a line.")
@click.pass_obj
def run(
    chosen: CatalogChoice,
    /,
    db: str | None,
    groups_file: Path | None,
    workers: int | None,
    host: str,
    port: int,
    metrics_port: int | None,
    metrics_host: str,
    interval: float,
    until_idle: bool,
    until_stdin_ends: bool,
    options_from_stdin: bool,
    settings: tuple[str, ...],
    look: float,
    log_level: str,
    as_json: bool,
) -> None:
    """Keep all tables of a catalog in shape, until it is stopped.

    The needs of each table are found from its metadata, and workers carry out the work: processes that are started
    beside this one, and others over the network (`interbed optimizer worker`). Of several optimizers for one catalog
    with one journal, one schedules and the others are standbys.

    Workers are not authenticated: give --host an address that only they can reach.

    SIGTERM and SIGINT end it: the next scheduler does the running work again. With --until-idle the exit code is 1 when
    tables are left that need work.
    """
    if groups_file is not None and workers is not None:
        raise click.UsageError("Give --groups or --workers, not both.")

    import logging

    from interbed.catalog.client.cli.long_run import served_metrics
    from interbed.optimizer.flow.process import Process
    from interbed.optimizer.journal.sql import SqlJournal, journal_url
    from interbed.optimizer.service.local_workers import LOG_FORMAT, LocalWorkers, place
    from interbed.optimizer.service.metrics import OptimizerMetrics, shown_progress
    from interbed.optimizer.service.port import CatalogForWorkers, SchedulerCalls, WorkerPort
    from interbed.optimizer.service.service import Leadership, OptimizerService, ServiceSettings
    from interbed.storage.base.clock import now_millis
    from interbed.storage.base.errors import InvalidInputError

    logging.basicConfig(level=log_level, format=LOG_FORMAT)
    # Alembic logs each step that it skips.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    groups = _groups(groups_file, workers)
    if options_from_stdin:
        chosen.options.update(json.loads(_line_of_stdin()))
    # The optimizer maintains other tables meanwhile, and tries again.
    chosen.options.setdefault("lock-acquire-timeout", _LOCK_TIMEOUT)
    times = ServiceSettings(
        interval=round(interval * 1000),
        look=round(look * 1000),
        until_idle=until_idle,
        scheduler=_scheduler_settings(settings),
    )
    with ExitStack() as stack:
        catalog = stack.enter_context(chosen.catalog())
        journal = stack.enter_context(closing(SqlJournal.open(journal_url(catalog, db))))
        leadership = Leadership()
        metrics = OptimizerMetrics(leadership)
        public_catalog = CatalogForWorkers.of(catalog.name, catalog.options.raw)
        try:
            listening = WorkerPort(host, port, SchedulerCalls(leadership, public_catalog, times.scheduler.lease))
        except OSError as error:
            raise InvalidInputError(f"The optimizer can't listen on {host}, port {port}: {error}.") from error
        stack.enter_context(closing(listening))
        if metrics_port is not None:
            stack.enter_context(served_metrics(metrics, metrics_host, metrics_port))

        def ended(process: Process) -> None:
            metrics.ended(process)
            _print_process(process, as_json)

        service = OptimizerService(
            catalog,
            journal,
            groups,
            leadership,
            times,
            holder=_holder(place()),
            clock=now_millis,
            local=LocalWorkers(_reachable(listening.uri), catalog.options.raw, log_level=log_level),
            on_ended=ended,
        )
        stack.enter_context(stopped_by_signals(service.stop))
        if until_stdin_ends:
            stop_with_stdin(service.stop)
        if as_json:
            _print_json({"event": "listening", "uri": listening.uri})
        else:
            print_line(f"optimizer listening on {listening.uri}")
        sys.stdout.flush()
        with shown_progress(leadership):
            left = service.run()
    for table, why in sorted(left.items()):
        print_line(f"{table} {why}", err=True)
    if left:
        raise click.exceptions.Exit(1)


def _groups(file: Path | None, workers: int | None) -> "Groups":
    from interbed.optimizer.flow.tables import DEFAULT_GROUP, ResourceGroup
    from interbed.optimizer.service.local_workers import FixedGroups, GroupsFile

    if file is not None:
        return GroupsFile(file)
    return FixedGroups({DEFAULT_GROUP: ResourceGroup(workers=1 if workers is None else workers)})


def _scheduler_settings(given: tuple[str, ...]) -> "SchedulerSettings":
    from interbed.optimizer.scheduling.needs import SchedulerSettings

    known = {field.name for field in fields(SchedulerSettings)}
    values: dict[str, Any] = {}
    for key, text in pairs(given, form="KEY=MILLIS", hint="--setting").items():
        if key not in known or not text.isdigit():
            raise click.BadParameter(f"{key}={text} is no setting of the scheduler.", param_hint="--setting")
        values[key] = int(text)
    return SchedulerSettings(**values)


def _holder(place: str) -> str:
    """Return a unique name: processes in two containers may have the same host name and process id."""
    import uuid

    return f"{place}:{uuid.uuid4().hex[:8]}"


def _reachable(uri: str) -> str:
    """Return the address for workers on this machine."""
    return uri.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def _print_process(process: "Process", as_json: bool) -> None:
    if as_json:
        _print_json({"event": "process", **process.to_json()})
        return
    figures = process.figures
    bytes_moved = f", {figures.bytes_in:,} bytes became {figures.bytes_out:,}" if figures.files_in else ""
    failure = f": {process.failure}" if process.failure else ""
    print_line(
        f"{process.table}: {process.kind} {process.state} in {process.seconds:.1f} s{bytes_moved} "
        f"({process.reason}){failure}"
    )


def _print_json(value: dict[str, Any]) -> None:
    click.echo(json.dumps(value))


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at SIGTERM and SIGINT while the block runs; a second signal has its usual effect."""
    before: dict[int, Any] = {}

    def note(_: int, __: object) -> None:
        for each, handler in before.items():
            signal.signal(each, handler)
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        before[number] = signal.signal(number, note)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _line_of_stdin() -> bytes:
    """Return the first line of standard input, and leave what follows it."""
    line = bytearray()
    while not line.endswith(b"\n") and (byte := os.read(0, 1)):
        line += byte
    return bytes(line)


def stop_with_stdin(stop: Callable[[], None]) -> None:
    """Call `stop` when standard input ends, which means that the parent process has ended."""

    def wait() -> None:
        # Not by sys.stdin: the end of the interpreter would wait for its lock.
        while os.read(0, 4096):
            pass
        stop()

    threading.Thread(target=wait, name="optimizer-stdin", daemon=True).start()


@click.command()
@click.option(
    "--uri",
    required=True,
    metavar="thrift://HOST:PORT",
    help="Address of the optimizer; several are separated by commas, and one of them schedules.",
)
@click.option("--group", default="default", show_default=True, metavar="NAME", help="The group of tables to work for.")
@click.option(
    "--threads", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Tasks at the same time."
)
@click.option("--memory", default="1 gb", show_default=True, metavar="SIZE", help="What all tasks may take together.")
@click.option(
    "--drain",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long running tasks may take to finish after a signal to end.",
)
@click.option(
    "--idle-time",
    metavar="TIME",
    help="End after this time without work, such as '10 min'; never by default.",
)
@log_level
@click.pass_obj
def worker(
    chosen: CatalogChoice,
    uri: str,
    group: str,
    threads: int,
    memory: str,
    drain: float,
    idle_time: str | None,
    log_level: str,
) -> None:
    """Work for an optimizer that runs elsewhere.

    The optimizer sends the options of its catalog without secrets. Give secrets, and options that differ here, by
    -o KEY=VALUE or --catalog NAME. The worker has to reach the catalog and the files of its tables.

    SIGTERM and SIGINT end it when its tasks are finished. A second signal ends it at once, and other workers do its
    tasks again.
    """
    import logging

    from interbed.optimizer.service.local_workers import LOG_FORMAT, place
    from interbed.optimizer.service.scheduler_client import SchedulerClient
    from interbed.optimizer.service.worker import OptimizerWorker, WorkerSettings, opened_with
    from interbed.storage.base.shown_text import parse_duration_millis, parse_memory

    logging.basicConfig(level=log_level, format=LOG_FORMAT)
    settings = WorkerSettings(
        group=group,
        threads=threads,
        memory=parse_memory("--memory", memory),
        place=place(),
        drain_seconds=drain,
        idle_seconds=None if idle_time is None else parse_duration_millis("--idle-time", idle_time) / 1000,
    )
    with closing(SchedulerClient(uri)) as client:
        working = OptimizerWorker(client, opened_with(_own_options(chosen)), settings)
        with stopped_by_signals(working.stop):
            working.run()


def _own_options(chosen: CatalogChoice) -> dict[str, str]:
    """Return the options given here. Without a name the default catalog does not count."""
    if chosen.name is None:
        return chosen.options
    from interbed.catalog.client.configuration import load_configuration

    return load_configuration().resolved(chosen.name, chosen.options)[1]
