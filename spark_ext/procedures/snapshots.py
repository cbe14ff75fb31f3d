"""Procedures about snapshots, expiry and rollback, and about the consumers of streams that protect snapshots.

Source: documentation page `spark/procedures`.
"""

import re
from collections.abc import Callable

from interbed.spark_ext.procedures.procedure import (
    DONE,
    TABLE,
    Answer,
    ArgumentType,
    Procedure,
    ProcedureCall,
    column,
    optional,
    required,
)
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.table.table import Table

_BEFORE_AND_AFTER = (
    column("previous_snapshot_id", ArgumentType.LONG),
    column("current_snapshot_id", ArgumentType.LONG),
)


def _expire_snapshots(call: ProcedureCall) -> Answer:
    result = (
        call.table()
        .copy(call.options())
        .maintenance.expire_snapshots(
            retain_max=call.given("retain_max"),
            retain_min=call.given("retain_min"),
            older_than=call.given("older_than"),
            max_deletes=call.given("max_deletes"),
        )
    )
    return ((len(result.snapshots),),)


def _rollback(call: ProcedureCall) -> Answer:
    ways = ("version", "snapshot", "tag")
    given = [name for name in ways if call.given(name) is not None]
    if len(given) != 1:
        names = " and ".join(f"'{name}'" for name in given)
        raise call.error(ways[0], f"is to be the only one of {', '.join(ways)} that is given, not {names or 'none'}")
    version = call.given(given[0])
    if given[0] == "version" and version.isdigit():
        version = int(version)
    return _rolled_back(call, lambda table: table.versions.rollback_to(version))


def _rollback_to_timestamp(call: ProcedureCall) -> Answer:
    return _rolled_back(call, lambda table: table.versions.rollback_to_timestamp(int(call.needed("timestamp"))))


def _rollback_to_watermark(call: ProcedureCall) -> Answer:
    return _rolled_back(call, lambda table: table.versions.rollback_to_watermark(call.needed("watermark")))


def _rolled_back(call: ProcedureCall, roll_back: Callable[[Table], Snapshot]) -> Answer:
    table = call.table()
    latest = table.latest_snapshot()
    if latest is None:
        raise call.error("table", "names a table without snapshots, to which nothing can be rolled back")
    return ((latest.id, roll_back(table).id),)


def _repair_earliest_snapshot(call: ProcedureCall) -> Answer:
    snapshot_id = call.needed("snapshot_id")
    return ((call.table().maintenance.repair_earliest_snapshot(snapshot_id), snapshot_id),)


_OF_SNAPSHOTS = (
    Procedure(
        name="expire_snapshots",
        description="Deletes old snapshots, and the files that no newer one, no tag and no branch needs.",
        parameters=(
            TABLE,
            optional("retain_max", ArgumentType.INT),
            optional("retain_min", ArgumentType.INT),
            optional("older_than"),
            optional("max_deletes", ArgumentType.INT),
            optional("options"),
        ),
        columns=(column("deleted_snapshots_count", ArgumentType.INT),),
        call=_expire_snapshots,
    ),
    Procedure(
        name="rollback",
        description="Takes back all that was committed after a snapshot or a tag.",
        parameters=(TABLE, optional("version"), optional("snapshot", ArgumentType.LONG), optional("tag")),
        columns=_BEFORE_AND_AFTER,
        call=_rollback,
    ),
    Procedure(
        name="rollback_to_timestamp",
        description="Takes back all that was committed after a time in milliseconds.",
        parameters=(TABLE, required("timestamp", ArgumentType.LONG)),
        columns=_BEFORE_AND_AFTER,
        call=_rollback_to_timestamp,
    ),
    Procedure(
        name="rollback_to_watermark",
        description="Takes back all that was committed after a watermark.",
        parameters=(TABLE, required("watermark", ArgumentType.LONG)),
        columns=_BEFORE_AND_AFTER,
        call=_rollback_to_watermark,
    ),
    Procedure(
        name="repair_earliest_snapshot",
        description="Notes the first of the snapshots that are there without a gap as the earliest one.",
        parameters=(TABLE, required("snapshot_id", ArgumentType.LONG)),
        columns=(
            column("previous_earliest_snapshot_id", ArgumentType.LONG),
            column("current_earliest_snapshot_id", ArgumentType.LONG),
        ),
        call=_repair_earliest_snapshot,
    ),
)


def _reset_consumer(call: ProcedureCall) -> Answer:
    table = call.table()
    number = call.given("nextSnapshotId")
    if number is not None:
        # It has to be there: a consumer can't go on from a snapshot that is gone.
        table.store.snapshots.read(number)
    table.versions.reset_consumer(call.needed("consumerId"), number)
    return DONE


def _clear_consumers(call: ProcedureCall) -> Answer:
    table = call.table()
    patterns = {name: call.given(name) for name in ("includingConsumers", "excludingConsumers")}
    for name, pattern in patterns.items():
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise call.error(name, f"is no regular expression: {error}") from error
    table.versions.clear_consumers(patterns["includingConsumers"] or ".*", patterns["excludingConsumers"])
    return DONE


_OF_CONSUMERS = (
    Procedure(
        name="reset_consumer",
        description="Lets a consumer go on from a snapshot, or forgets it without one.",
        parameters=(TABLE, required("consumerId"), optional("nextSnapshotId", ArgumentType.LONG)),
        call=_reset_consumer,
    ),
    Procedure(
        name="clear_consumers",
        description="Forgets the consumers whose ids match a regular expression.",
        parameters=(TABLE, optional("includingConsumers"), optional("excludingConsumers")),
        call=_clear_consumers,
    ),
)

PROCEDURES = (*_OF_SNAPSHOTS, *_OF_CONSUMERS)
