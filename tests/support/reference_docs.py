"""Generated parts of the pages in docs/: options, errors, metrics, the index of decisions.

`python -m tests.support.reference_docs` writes them again. With `--check` it writes nothing, names the parts that
differ from the code, and ends with exit code 1. The rest of a page is its own text; each part is between two comments
of Markdown that name it.
"""

import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

import interbed
from interbed.catalog.server.ops.metrics import (
    CacheFigures,
    DatabaseFigures,
    MetricsPage,
    PoolFigures,
    ServerMetrics,
)
from interbed.catalog.server.service.directories.remote_files import RemoteFigures
from interbed.catalog.server.thrift.edge.call import Call, CallOutcome, ClientSession
from interbed.catalog.server.thrift.edge.pool import EdgeFigures, RowFigures
from interbed.storage.base.errors import InterbedError
from tests.support.decisions import DECISIONS, ROOT, Decision, decisions
from tests.support.option_table import OptionRow, catalog_options, harmless_options, refused_options, table_options

DOCS = ROOT / "docs"


class Part(NamedTuple):
    """Generated part of a page."""

    page: Path
    name: str
    make: Callable[[], str]

    @property
    def begin(self) -> str:
        """Comment before the part."""
        return f"<!-- {self.name}: made by python -m tests.support.reference_docs -->"

    @property
    def end(self) -> str:
        """Comment after the part."""
        return f"<!-- end of {self.name} -->"

    def replaced(self, text: str) -> str:
        """Return the text of the page with this part as the code has it. Raises ValueError if the page lacks the
        comments.
        """
        before, found, rest = text.partition(self.begin)
        _, closed, after = rest.partition(self.end)
        if not (found and closed):
            raise ValueError(f"{self.page.name} has no part {self.name!r}.")
        return f"{before}{self.begin}\n\n{self.make()}\n\n{self.end}{after}"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


# -- options ---------------------------------------------------------------------------------------------------------


def _options(rows: list[OptionRow]) -> str:
    cells = [(f"`{r.key}`", r.kind, f"`{r.default}`" if r.default else "", r.meaning) for r in rows]
    return _table(("option", "type", "default", "meaning"), cells)


# -- errors ----------------------------------------------------------------------------------------------------------


class Retry(StrEnum):
    """Whether a failed call may be repeated."""

    NO = "no"
    SAME = "yes, the same call"
    REREAD = "yes, from a new read"
    CHECK = "only after a check"


NAMED = {
    "InterbedError": ("Catch it for every error of interbed; look at the ones below for what to do.", Retry.NO),
    "InvalidInputError": ("Correct the argument or the rows that the message names.", Retry.NO),
    "SchemaMismatchError": (
        "Cast or rename the columns, alter the table, or write with `merge_schema=True`.",
        Retry.NO,
    ),
    "FilterError": ("Correct the filter; see [filters](sql.md#filters).", Retry.NO),
    "InvalidOptionError": ("Correct the option; see [options](options.md).", Retry.NO),
    "ServerSettingsError": ("Correct the server's setting; see [operating](operating.md#configuration).", Retry.NO),
    "ProcedureArgumentError": ("Correct the arguments of the procedure; the message shows its signature.", Retry.NO),
    "UsedTwiceError": ("Make a new writer or committer from the builder.", Retry.NO),
    "MissingExtraError": ("Install the extra that the message names.", Retry.NO),
    "NotSupportedError": ("Do it without the feature that the message names, or with another engine.", Retry.NO),
    "CorruptFileError": ("Restore the file from a copy, or go back to a snapshot that does not name it.", Retry.NO),
    "UnsupportedVersionError": ("Upgrade interbed.", Retry.NO),
    "SnapshotNotFoundError": ("Choose one of the snapshots that the message names.", Retry.NO),
    "SnapshotGoneError": ("Read the newest snapshot; keep snapshots longer, or tag what long jobs read.", Retry.REREAD),
    "TagNotFoundError": ("Choose one of the tags that the message names.", Retry.NO),
    "BranchNotFoundError": ("Choose one of the branches that the message names.", Retry.NO),
    "StorageAccessError": ("Check the path, the credentials and the network.", Retry.SAME),
    "AccessRefusedError": (
        "Give the store other credentials, as the message says; nothing was changed.",
        Retry.SAME,
    ),
    "SyncFailedError": (
        "Look into the disk and the system's log. Nothing was committed; anything else that was written is there, but "
        "may be gone after the machine stops.",
        Retry.NO,
    ),
    "LogUnavailableError": (
        "Check Kafka; the table is as it was, and what was committed is published later.",
        Retry.SAME,
    ),
    "FileGoneError": ("Plan the read again; if the file is still missing, the table is damaged.", Retry.REREAD),
    "CommitError": ("The table is as it was; see the errors below.", Retry.NO),
    "CommitConflictError": ("Read the table again and redo the work.", Retry.REREAD),
    "DuplicateFileError": (
        "The same files were committed already: look for the snapshot before redoing the work.",
        Retry.REREAD,
    ),
    "CommitFailedError": (
        "Repeat the call; raise `commit.max-retries` or `commit.timeout` if it comes often.",
        Retry.SAME,
    ),
    "CommitStateUnknownError": (
        "Look for a snapshot of this commit user and identifier; committing again with the same pair is safe.",
        Retry.CHECK,
    ),
    "BadMessageError": (
        "Mend the message at its source, skip such messages, or have them put into another topic.",
        Retry.NO,
    ),
    "SourceUnavailableError": (
        "See that the brokers, or the database, can be reached; runs of ingestion try again by themselves.",
        Retry.SAME,
    ),
    "SchemaRegistryError": ("Correct the registry's address, or give credentials that may read it.", Retry.NO),
    "UnknownSchemaError": ("Register the schema, skip such messages, or have them put into another topic.", Retry.NO),
    "SourceChangedError": ("Drop the table to read the source again, or accept what the source is like now.", Retry.NO),
    "SourceGapError": ("Read the source again, by another group or slot, or accept the gap.", Retry.NO),
    "RepeatedKeyError": (
        "Remove the repeated keys from the source; interbed itself runs such a MERGE again.",
        Retry.NO,
    ),
    "MigrationError": ("Correct what the message names and run the command again with `--resume`.", Retry.SAME),
    "MissingMethodError": ("Use a metastore of a version that has the method, or leave that part out.", Retry.NO),
    "RefusedError": ("Look at the log of the metastore that refused; the other objects are copied.", Retry.SAME),
    "ObjectGoneError": ("Nothing: the object was dropped meanwhile.", Retry.NO),
    "SparkSetupError": ("Install what the message names, or correct the setting.", Retry.NO),
    "CatalogError": ("See the errors below.", Retry.NO),
    "DatabaseNotFoundError": ("Create the database, or correct its name.", Retry.NO),
    "DatabaseExistsError": ("Pass `ignore_if_exists=True`, or choose another name.", Retry.NO),
    "DatabaseNotEmptyError": ("Drop with `cascade=True`, or drop its tables first.", Retry.NO),
    "TableNotFoundError": ("Create the table, or correct its name.", Retry.NO),
    "UnregisteredTableError": (
        "Register the table by `interbed catalog repair DATABASE.TABLE`, or choose another name.",
        Retry.NO,
    ),
    "TableExistsError": ("Pass `ignore_if_exists=True`, or choose another name.", Retry.NO),
    "ViewNotFoundError": ("Create the view, or correct its name.", Retry.NO),
    "FunctionNotFoundError": ("Create the function, or correct its name.", Retry.NO),
    "FunctionExistsError": ("Pass `ignore_if_exists=True`, or choose another name.", Retry.NO),
    "PartitionExistsError": ("Pass `ignore_if_exists`, or `IF NOT EXISTS` in SQL.", Retry.NO),
    "NotAnInterbedTableError": ("Query the table with the engine of its format.", Retry.NO),
    "CatalogUnavailableError": ("Check the metastore's address and that it runs.", Retry.SAME),
    "CallStateUnknownError": ("The metastore may have carried the call out: look before repeating it.", Retry.CHECK),
    "CatalogAccessError": ("Give credentials that the server accepts, or the permission that they lack.", Retry.NO),
    "RestRefusedError": ("Look into the log of the server, and see whether the change was made.", Retry.CHECK),
    "TableModifiedError": ("Another client altered the table at the same time; repeat the call.", Retry.SAME),
    "LockGoneError": ("The lock's lease ran out: repeat the commit; see `lock_lease_seconds`.", Retry.SAME),
    "LockError": ("Repeat the call; `interbed locks explain` shows the holder of the lock.", Retry.SAME),
    "NoSchedulerError": (
        "None: workers of the optimizer ask again; look whether `interbed optimizer run` runs.",
        Retry.SAME,
    ),
    "NotOnDutyError": ("None: another optimizer schedules, or this one will.", Retry.SAME),
    "WorkerRefusedError": (
        "Correct the worker's group or threads, or install the optimizer's version there.",
        Retry.NO,
    ),
    "UnknownWorkerError": ("None: workers of the optimizer register again by themselves.", Retry.SAME),
    "JournalError": ("Check the database of the optimizer's journal; nothing was decided without it.", Retry.SAME),
    "SchedulerEndedError": ("None: the optimizer goes on from its journal with a new one.", Retry.NO),
    "LeaseLostError": ("None: another optimizer has taken over, and this one stands by.", Retry.NO),
}
"""Advice for each error class of callers, and whether to retry."""


def error_classes() -> Iterator[tuple[int, type[InterbedError]]]:
    """Yield each error class of callers with its depth in the tree, parents first."""
    for module in pkgutil.walk_packages(interbed.__path__, "interbed."):
        if not module.name.startswith(("interbed.thrift_idl", "interbed.migrations")):
            importlib.import_module(module.name)

    def below(parent: type[InterbedError], depth: int) -> Iterator[tuple[int, type[InterbedError]]]:
        yield depth, parent
        for child in sorted(parent.__subclasses__(), key=lambda c: (bool(c.__subclasses__()), c.__name__)):
            # A class with two parents is listed under the first of them.
            if child.__bases__[0] is parent and not child.__name__.startswith("_"):
                yield from below(child, depth + 1)

    yield from below(InterbedError, 0)


def error_tree() -> str:
    """Return the tree as text."""
    return "```text\n" + "\n".join(f"{'    ' * depth}{cls.__name__}" for depth, cls in error_classes()) + "\n```"


def error_table() -> str:
    """Return the meaning of each error and the advice for it. Raises KeyError for a class that NAMED lacks."""
    rows = []
    for _, cls in error_classes():
        advice, retry = NAMED[cls.__name__]
        if getattr(cls, "retryable", False) and retry is Retry.NO:
            raise ValueError(f"{cls.__name__} may be retried, and NAMED denies it.")
        meaning = re.split(r"(?<=[.;])\s", " ".join((cls.__doc__ or "").split()))[0].rstrip(";")
        others = [b.__name__ for b in cls.__mro__ if b.__module__ == "builtins" and b.__name__ not in _PLAIN]
        python = f" Also a `{others[0]}`." if others else ""
        rows.append((f"`{cls.__name__}`", f"{meaning.rstrip('.')}.{python}", advice, str(retry)))
    return _table(("error", "meaning", "what to do", "again?"), rows)


_PLAIN = frozenset({"Exception", "BaseException", "object"})


# -- metrics ---------------------------------------------------------------------------------------------------------


class ServerMetric(NamedTuple):
    """A metric of the server's page: its name as queries have it, its type, its labels and its meaning."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


def server_metrics() -> list[ServerMetric]:
    """Return the metrics of a server that has answered calls, as its page exposes them, by name."""
    metrics = ServerMetrics()
    pool, cache = PoolFigures(in_use=1, idle=1), CacheFigures(hits=1, misses=1, size_bytes=1)
    edge = EdgeFigures(partial_bytes=1, decoded_bytes=1, reply_bytes=1, waiting=1, dropped_total=1, refused_total=1)
    stores = RemoteFigures(waiting=1, given_up=1, timeouts_total=1, refused_total=1)
    rows = RowFigures(open=1, memory_bytes=1, rows_total=1, bytes_total=1, refused_total=1)
    metrics.watch(
        connections=lambda: 1,
        pool=lambda: pool,
        cache=lambda: cache,
        edge=lambda: edge,
        stores=lambda: stores,
        rows=lambda: rows,
    )
    for outcome in CallOutcome:
        call = Call(
            request_id="1", method="get_table", session=ClientSession(peer="here"), seconds=0.1, outcome=outcome
        )
        metrics.observed(call)
    figures = DatabaseFigures(locks_acquired=1, locks_waiting=1, locks_stale=1, locks_expired_total=1, event_id=1)
    page = MetricsPage(metrics, lambda: figures, lambda: 1).render().decode()
    found = []
    for family in text_string_to_metric_families(page):
        if family.name.startswith("interbed_"):
            labels = tuple(sorted({name for s in family.samples for name in s.labels} - {"le"}))
            total = "_total" if family.type == "counter" else ""
            found.append(ServerMetric(f"{family.name}{total}", family.type, labels, family.documentation))
    return sorted(found)


def _metrics_table() -> str:
    rows = [(f"`{m.name}`", m.kind, ", ".join(f"`{n}`" for n in m.labels), m.meaning) for m in server_metrics()]
    return _table(("metric", "type", "labels", "meaning"), rows)


# -- decisions -------------------------------------------------------------------------------------------------------


def _decision_lines(found: list[Decision], folder: str) -> str:
    return "\n".join(f"{d.number}. [{d.title}]({folder}{d.path.name})" for d in found)


PARTS = (
    Part(DOCS / "options.md", "table options", lambda: _options(table_options())),
    Part(DOCS / "options.md", "harmless options", lambda: _table(("options", "reason"), harmless_options())),
    Part(
        DOCS / "options.md",
        "refused options",
        lambda: _table(("option", "taken values", "why", "way out"), refused_options()),
    ),
    Part(DOCS / "options.md", "catalog options", lambda: _options(catalog_options())),
    Part(DOCS / "errors.md", "tree of errors", error_tree),
    Part(DOCS / "errors.md", "table of errors", error_table),
    Part(DOCS / "metrics.md", "metrics", _metrics_table),
    Part(DECISIONS / "README.md", "index of decisions", lambda: _decision_lines(decisions(), "")),
)


def main() -> int:
    """Write all parts, or with `--check` name those that differ, and return the exit code."""
    stale = []
    for part in PARTS:
        before = part.page.read_text(encoding="utf-8")
        after = part.replaced(before)
        if after != before:
            stale.append(f"{part.page.relative_to(ROOT)}: {part.name}")
            if "--check" not in sys.argv:
                part.page.write_text(after, encoding="utf-8")
    print("\n".join(stale))
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
