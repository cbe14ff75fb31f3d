"""`sys.optimizing_processes`: the optimizer's processes for the tables of a catalog, the newest first."""

from collections.abc import Collection, Sequence

import pyarrow as pa

from interbed.catalog.client.global_tables import GlobalTableKind, ShownCatalog
from interbed.optimizer.flow.process import Process
from interbed.optimizer.journal.sql import journal_to_read, journal_url
from interbed.storage.views.system.rows_table import Row, bigint, integer, text

_MOST = 100_000
"""Processes that are shown at most; a scheduler deletes them after a week."""


def _rows(catalog: ShownCatalog, _: Collection[str]) -> Sequence[Row]:
    with journal_to_read(journal_url(catalog)) as journal:
        return [_row(process) for process in journal.processes(limit=_MOST)]


def _row(process: Process) -> Row:
    database, _, table = process.table.partition(".")
    before, after, figures = process.before, process.after, process.figures
    return (
        database,
        table,
        process.id,
        process.kind.value,
        process.group,
        process.reason,
        process.state.value,
        process.created_millis,
        process.ended_millis,
        process.tasks,
        process.seconds,
        figures.bytes_in,
        figures.bytes_out,
        figures.files_in,
        figures.files_out,
        before.score,
        None if after is None else after.score,
        before.read_amplification,
        None if after is None else after.read_amplification,
        process.snapshot_id,
        process.failure,
    )


OPTIMIZING_PROCESSES = GlobalTableKind(
    columns=(
        text("database_name"),
        text("table_name"),
        text("process_id"),
        text("kind"),
        text("group_name"),
        text("reason"),
        text("state"),
        bigint("created_at"),
        bigint("ended_at", nullable=True),
        integer("tasks"),
        pa.field("seconds", pa.float64(), False),
        bigint("bytes_in"),
        bigint("bytes_out"),
        bigint("files_in"),
        bigint("files_out"),
        integer("score_before"),
        integer("score_after", nullable=True),
        pa.field("read_amplification_before", pa.float64(), False),
        pa.field("read_amplification_after", pa.float64()),
        bigint("snapshot_id", nullable=True),
        text("failure", nullable=True),
    ),
    rows=_rows,
)
