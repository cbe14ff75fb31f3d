"""Options that the commands of all sources share, the settings that they define, and a run with its progress."""

import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from interbed.catalog.client.cli.group import names as listed
from interbed.catalog.client.cli.group import pairs
from interbed.storage.base.shown_text import escaped
from interbed.storage.base.terminal import print_line

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from interbed.ingest.job import Ingestion
    from interbed.ingest.run_settings import IngestSettings
    from interbed.ingest.tables.source_tables import TableNames
    from interbed.ingest.tables.table_sink import TableSettings

_Command = TypeVar("_Command", bound=Callable[..., object])


class DurationParameter(click.ParamType):  # type: ignore[type-arg]
    """A duration as in the options of tables: '10s', '1 min'."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from interbed.storage.base.errors import InvalidInputError
        from interbed.storage.base.shown_text import parse_duration_millis

        if isinstance(value, float):
            return value
        try:
            return parse_duration_millis("--commit-interval", str(value)) / 1000
        except InvalidInputError as error:
            self.fail(str(error), param, ctx)


_NAMES: Sequence[Any] = (
    click.option("--table", metavar="DATABASE.TABLE", help="The table that all changes go to."),
    click.option("--database", metavar="NAME", help="The database in which each table of the source has one."),
    click.option("--table-prefix", default="", metavar="TEXT", help="Before the names of the source's tables."),
    click.option("--table-suffix", default="", metavar="TEXT", help="After the names of the source's tables."),
    click.option(
        "--including-tables", default=".*", metavar="REGEX", help="Only tables of the source whose whole name matches."
    ),
    click.option("--excluding-tables", metavar="REGEX", help="No tables of the source whose whole name matches."),
)
_TABLES: Sequence[Any] = (
    click.option(
        "--primary-key",
        "primary_keys",
        multiple=True,
        metavar="COLUMNS",
        help="The key of tables that are created; by default the one that messages name.",
    ),
    click.option(
        "--partition-key", "partition_keys", multiple=True, metavar="COLUMNS", help="Likewise, the partitions."
    ),
    click.option(
        "--table-option",
        "table_options",
        multiple=True,
        metavar="KEY=VALUE",
        help="An option of tables that are created.",
    ),
    click.option(
        "--computed-column",
        "computed",
        multiple=True,
        metavar="NAME=FUNCTION(COLUMN,…)",
        help="A column worked out from another, such as dt=date_format(created,'yyyy-MM-dd'); repeatable.",
    ),
)
_COMMITS: Sequence[Any] = (
    click.option(
        "--commit-interval", type=DurationParameter(), default="10s", show_default=True, help="How often to commit."
    ),
    click.option("--commit-rows", type=click.IntRange(min=1), metavar="N", help="Commit sooner, with so many rows."),
    click.option(
        "--accept-changed-source",
        multiple=True,
        metavar="DATABASE.TABLE",
        help="A table of the lake whose source table may have another key or identity than before; repeatable.",
    ),
    click.option("--until-end", is_flag=True, help="End where the topics end now, instead of waiting for more."),
)
_WATCHING: Sequence[Any] = (
    click.option("--metrics-port", type=int, metavar="PORT", help="Serve Prometheus's metrics on this port."),
    click.option(
        "--metrics-host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address of the metrics."
    ),
    click.option("--json", "as_json", is_flag=True, help="Print each commit, and the end, as a JSON object on a line."),
)


def to_tables(command: _Command) -> _Command:
    """Add the options of the tables that changes go to."""
    return _with(command, (*_NAMES, *_TABLES))


def with_commits(command: _Command) -> _Command:
    """Add the options of commits."""
    return _with(command, _COMMITS)


def watched(command: _Command) -> _Command:
    """Add the options of progress, metrics and output."""
    return _with(command, _WATCHING)


def _with(command: _Command, options: Sequence[Any]) -> _Command:
    for option in reversed(options):
        command = option(command)
    return command


def check_tables(given: Mapping[str, Any]) -> None:
    """Raise UsageError unless either --table or --database is given."""
    if bool(given["table"]) == bool(given["database"]):
        raise click.UsageError("Give the one --table that changes go to, or the --database of many.")


def table_names(given: Mapping[str, Any], databases: Sequence[str] = ()) -> "TableNames":
    """Return the tables that changes go to. Without `databases`, tables of all databases of the source are read."""
    from interbed.ingest.tables.source_tables import TableNames

    return TableNames(
        table=given["table"],
        database=given["database"],
        prefix=given["table_prefix"],
        suffix=given["table_suffix"],
        including=given["including_tables"],
        excluding=given["excluding_tables"],
        databases=frozenset(databases) or None,
        skipping=given.get("skip_tables"),
    )


def table_settings(given: Mapping[str, Any]) -> "TableSettings":
    """Return the settings of tables that are created."""
    from interbed.ingest.tables.computed_columns import ComputedColumn
    from interbed.ingest.tables.table_sink import TableSettings

    return TableSettings(
        primary_keys=listed(given["primary_keys"]),
        partition_keys=listed(given["partition_keys"]),
        options=pairs(given["table_options"], hint="--table-option"),
        computed=[ComputedColumn.parse(text) for text in given["computed"]],
    )


def ingest_settings(
    given: Mapping[str, Any], group: str, *, skip_bad: bool, dead_letters: bool = False
) -> "IngestSettings":
    """Return the settings of a run."""
    from interbed.ingest.run_settings import BadMessages, IngestSettings

    bad = BadMessages.SKIP if skip_bad else BadMessages.DEAD_LETTER if dead_letters else BadMessages.STOP
    return IngestSettings(
        group=group,
        commit_interval=given["commit_interval"],
        commit_rows=given["commit_rows"],
        until_end=given["until_end"],
        bad_messages=bad,
        accept_changed_source=frozenset(listed(given["accept_changed_source"])),
    )


def run(job: "Ingestion", given: Mapping[str, Any]) -> None:
    """Run the job, with progress, metrics and JSON output as the options say."""
    with ExitStack() as stack:
        stopped = stack.enter_context(_stop_signals())
        if given["metrics_port"] is not None:
            stack.enter_context(serve_metrics(job, given["metrics_host"], given["metrics_port"]))
        stack.enter_context(shown_progress(job))

        def committed() -> None:
            if given["as_json"]:
                click.echo(json.dumps({"event": "commit", **job.result.to_dict()}))

        job.run(stopped, committed)
    result = job.result
    if given["as_json"]:
        click.echo(json.dumps({"event": "end", **result.to_dict()}))
        return
    rows = sum(result.rows.values())
    bad = f", {result.bad} of them bad" if result.bad else ""
    print_line(
        f"read {result.messages} messages{bad}; committed {rows} rows of {len(result.rows)} tables in "
        f"{result.commits} commits"
    )


class IngestMetrics:
    """Prometheus collector of one run; see docs/metrics.md."""

    def __init__(self, job: "Ingestion") -> None:
        self._job = job

    def collect(self) -> "Iterator[Metric]":
        """Yield the metrics of this moment."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        result = self._job.result
        yield CounterMetricFamily("interbed_ingest_messages", "Messages read.", value=result.messages)
        yield CounterMetricFamily("interbed_ingest_bad_messages", "Messages that could not be taken.", value=result.bad)
        yield CounterMetricFamily("interbed_ingest_commits", "Commits made.", value=result.commits)
        rows = CounterMetricFamily("interbed_ingest_rows", "Rows committed.", labels=["table"])
        for name, count in sorted(result.rows.items()):
            rows.add_metric([escaped(name)], count)
        yield rows
        # The name ends with the unit, by the convention of Prometheus. A metric has one unit for all its labels.
        unit = result.lag_unit.value
        yield GaugeMetricFamily(f"interbed_ingest_lag_{unit}", f"Not yet read, in {unit}.", value=result.lag, unit=unit)


@contextmanager
def serve_metrics(job: "Ingestion", host: str, port: int) -> Iterator[int]:
    """Serve the metrics of a run while the block runs, on a free port if `port` is 0. Yields the port."""
    from interbed.catalog.client.cli.long_run import served_metrics

    with served_metrics(IngestMetrics(job), host, port) as taken:
        yield taken


@contextmanager
def shown_progress(job: "Ingestion") -> Iterator[None]:
    """Show the progress of a run on standard error while the block runs, if that is a terminal."""
    from interbed.catalog.client.cli.long_run import shown_line

    with shown_line(lambda: _line(job), thread_name="ingest-progress"):
        yield


def _line(job: "Ingestion") -> str:
    result = job.result
    rows = sum(result.rows.values())
    bad = f", {result.bad:,} bad" if result.bad else ""
    return (
        f"{result.messages:,} messages{bad} · {rows:,} rows in {result.commits:,} commits · "
        f"{result.messages_per_second:,.0f} messages/s · lag {result.lag:,} {result.lag_unit}"
    )


@contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether SIGTERM or SIGINT came while the block runs.

    A second signal has its usual effect and ends the process.
    """
    came = threading.Event()
    before: dict[int, Any] = {}

    def note(number: int, _: object) -> None:
        came.set()
        signal.signal(number, before[number])

    for number in (signal.SIGTERM, signal.SIGINT):
        before[number] = signal.signal(number, note)
    try:
        yield came.is_set
    finally:
        for taken, handler in before.items():
            signal.signal(taken, handler)
