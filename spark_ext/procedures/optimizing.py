"""The procedure that says what the optimizer knows of tables, needs no more than its journal, and is our own."""

from interbed.optimizer.journal.sql import journal_to_read, journal_url
from interbed.optimizer.views.status import TableLine, optimizer_status
from interbed.spark_ext.procedures.procedure import (
    Answer,
    ArgumentType,
    Procedure,
    ProcedureCall,
    column,
    optional,
)
from interbed.storage.base.clock import now_millis


def _optimizing_status(call: ProcedureCall) -> Answer:
    names = None
    if call.given("table") is not None:
        call.table()
        names = [str(call.table_name().identifier)]
    with journal_to_read(journal_url(call.catalog)) as journal:
        found = optimizer_status(journal, now_millis(), names)
    return [_row(line) for line in found.tables]


def _row(line: TableLine) -> tuple[object, ...]:
    state, standing = line.state, line.state.standing
    return (
        state.name,
        state.group,
        None if standing is None else standing.score,
        None if standing is None else standing.read_amplification,
        None if standing is None else standing.pending_bytes,
        None if standing is None else standing.snapshot_id,
        line.doing,
        line.needs,
        line.reason,
        state.failures,
        state.measured_millis,
    )


PROCEDURES = (
    Procedure(
        name="optimizing_status",
        description="Says of a table, or of all, what the optimizer knows and does; the worst first.",
        parameters=(optional("table"),),
        columns=(
            column("table"),
            column("group"),
            column("score", ArgumentType.INT),
            column("readAmplification", ArgumentType.DOUBLE),
            column("pendingBytes", ArgumentType.LONG),
            column("snapshotId", ArgumentType.LONG),
            column("doing"),
            column("needs"),
            column("reason"),
            column("failures", ArgumentType.INT),
            column("measuredAt", ArgumentType.LONG),
        ),
        call=_optimizing_status,
    ),
)
