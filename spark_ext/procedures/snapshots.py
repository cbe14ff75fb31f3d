"""Procedures about snapshots, rollback, consumers of streams, tags and branches.

Source: documentation pages `spark/procedures`, `maintenance/manage-tags`, `maintenance/manage-branches`.
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
from interbed.storage.base.errors import BranchNotFoundError
from interbed.storage.meta.paths import MAIN_BRANCH
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
        version = _snapshot_or_tag(call, version)
    return _rolled_back(call, lambda table: table.versions.rollback_to(version))


def _snapshot_or_tag(call: ProcedureCall, digits: str) -> int | str:
    """Return the snapshot of a version of digits, or the tag of that name if there is no such snapshot."""
    table = call.table()
    tagged = next((tag.snapshot.id for tag in table.versions.tags() if tag.name == digits), None)
    if tagged is None or tagged == int(digits):
        return int(digits)
    if table.store.snapshots.exists(int(digits)):
        raise call.error(
            "version",
            f"is a snapshot and the name of a tag of the snapshot {tagged}; write snapshot => {digits} or "
            f"tag => '{digits}'",
        )
    return digits


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
        description="Rolls back all commits after a snapshot or a tag.",
        parameters=(TABLE, optional("version"), optional("snapshot", ArgumentType.LONG), optional("tag")),
        columns=_BEFORE_AND_AFTER,
        call=_rollback,
    ),
    Procedure(
        name="rollback_to_timestamp",
        description="Rolls back all commits after a time in milliseconds.",
        parameters=(TABLE, required("timestamp", ArgumentType.LONG)),
        columns=_BEFORE_AND_AFTER,
        call=_rollback_to_timestamp,
    ),
    Procedure(
        name="rollback_to_watermark",
        description="Rolls back all commits after a watermark.",
        parameters=(TABLE, required("watermark", ArgumentType.LONG)),
        columns=_BEFORE_AND_AFTER,
        call=_rollback_to_watermark,
    ),
    Procedure(
        name="repair_earliest_snapshot",
        description="Records the first of the newest consecutive snapshots as the earliest one.",
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
        # Fails if it is missing: a consumer can't continue from a deleted snapshot.
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
        description="Sets the next snapshot of a consumer, or deletes the consumer without one.",
        parameters=(TABLE, required("consumerId"), optional("nextSnapshotId", ArgumentType.LONG)),
        call=_reset_consumer,
    ),
    Procedure(
        name="clear_consumers",
        description="Deletes the consumers whose ids match a regular expression.",
        parameters=(TABLE, optional("includingConsumers"), optional("excludingConsumers")),
        call=_clear_consumers,
    ),
)


_TAG = required("tag")
_REPLACING = ("replace", "create or replace")


def _create_tag(call: ProcedureCall) -> Answer:
    call.table().versions.create_tag(
        call.needed("tag"), call.given("snapshot"), time_retained=call.given("time_retained")
    )
    return DONE


def _create_tag_from_timestamp(call: ProcedureCall) -> Answer:
    tag = call.table().versions.create_tag_from_timestamp(
        call.needed("tag"), call.needed("timestamp"), time_retained=call.given("time_retained")
    )
    found = tag.snapshot
    # The watermark is text in Paimon's result, also when there is none.
    watermark = "null" if found.watermark is None else str(found.watermark)
    return ((tag.name, found.id, found.time_millis, watermark),)


def _replace_tag(call: ProcedureCall) -> Answer:
    call.table().versions.replace_tag(
        call.needed("tag"), call.given("snapshot"), time_retained=call.given("time_retained")
    )
    return DONE


def _rename_tag(call: ProcedureCall) -> Answer:
    call.table().versions.rename_tag(call.needed("tag"), call.needed("target_tag"))
    return DONE


def _delete_tag(call: ProcedureCall) -> Answer:
    table = call.table()
    # Several are separated by commas, as in Paimon; all are looked up before one is deleted.
    names = [name.strip() for name in call.needed("tag").split(",") if name.strip()]
    for name in names:
        table.versions.get_tag(name)
    for name in names:
        table.versions.delete_tag(name)
    return DONE


def _trigger(call: ProcedureCall) -> Answer:
    call.table().versions.create_automatic_tags()
    return DONE


def _expire_tags(call: ProcedureCall) -> Answer:
    deleted = call.table().versions.expire_tags(call.given("older_than"))
    return [(name,) for name in deleted] or [("No expired tags.",)]


def _create_by_statement(call: ProcedureCall) -> Answer:
    table, name, mode = call.table(), call.needed("tag"), call.needed("mode")
    number = call.given("snapshot")
    snapshot_id, span = None if number is None else int(number), call.given("time_retained")
    exists = any(tag.name == name for tag in table.versions.tags())
    if exists and mode in _REPLACING:
        table.versions.replace_tag(name, snapshot_id, time_retained=span)
    else:
        table.versions.create_tag(name, snapshot_id, time_retained=span, ignore_if_exists=mode == "create if missing")
    return ()


def _delete_by_statement(call: ProcedureCall) -> Answer:
    table, name = call.table(), call.needed("tag")
    if call.needed("mode") == "strict" or any(tag.name == name for tag in table.versions.tags()):
        table.versions.delete_tag(name)
    return ()


def _rename_by_statement(call: ProcedureCall) -> Answer:
    _rename_tag(call)
    return ()


def _show(call: ProcedureCall) -> Answer:
    return sorted((tag.name,) for tag in call.table().versions.tags())


_MODE = required("mode")
STATEMENTS = (
    Procedure(
        name="create_tag_statement",
        description="ALTER TABLE … CREATE TAG",
        parameters=(TABLE, _TAG, _MODE, optional("snapshot"), optional("time_retained")),
        columns=(),
        call=_create_by_statement,
        is_statement=True,
    ),
    Procedure(
        name="delete_tag_statement",
        description="ALTER TABLE … DELETE TAG",
        parameters=(TABLE, _TAG, _MODE),
        columns=(),
        call=_delete_by_statement,
        is_statement=True,
    ),
    Procedure(
        name="rename_tag_statement",
        description="ALTER TABLE … RENAME TAG",
        parameters=(TABLE, _TAG, required("target_tag")),
        columns=(),
        call=_rename_by_statement,
        is_statement=True,
    ),
    Procedure(
        name="show_tags_statement",
        description="SHOW TAGS",
        parameters=(TABLE,),
        columns=(column("tag"),),
        call=_show,
        is_statement=True,
    ),
)
"""Procedures of the statements about tags; they are not listed."""

_OF_TAGS = (
    Procedure(
        name="create_tag",
        description="Names a snapshot, the newest one by default, so that it stays readable when it expires.",
        parameters=(TABLE, _TAG, optional("snapshot", ArgumentType.LONG), optional("time_retained")),
        call=_create_tag,
    ),
    Procedure(
        name="create_tag_from_timestamp",
        description="Names the first snapshot of a time in milliseconds or later.",
        parameters=(TABLE, _TAG, optional("timestamp", ArgumentType.LONG), optional("time_retained")),
        columns=(
            column("tagName"),
            column("snapshot", ArgumentType.LONG),
            column("commit_time", ArgumentType.LONG),
            column("watermark"),
        ),
        call=_create_tag_from_timestamp,
    ),
    Procedure(
        name="replace_tag",
        description="Moves a tag to another snapshot.",
        parameters=(TABLE, _TAG, optional("snapshot", ArgumentType.LONG), optional("time_retained")),
        call=_replace_tag,
    ),
    Procedure(
        name="rename_tag",
        description="Gives a tag another name.",
        parameters=(TABLE, _TAG, required("target_tag")),
        call=_rename_tag,
    ),
    Procedure(
        name="delete_tag",
        description="Deletes tags, and the files that only they kept.",
        parameters=(TABLE, _TAG),
        call=_delete_tag,
    ),
    Procedure(
        name="expire_tags",
        description="Deletes expired tags, and tags created before a time.",
        parameters=(TABLE, optional("older_than")),
        columns=(column("expired_tags"),),
        call=_expire_tags,
    ),
    Procedure(
        name="trigger_tag_automatic_creation",
        description="Creates the automatic tags that are due, without a commit.",
        parameters=(TABLE,),
        call=_trigger,
    ),
)


_BRANCH = required("branch")


def _create_branch(call: ProcedureCall) -> Answer:
    # The flag is text in Paimon's procedure.
    lenient = str(call.given("ignoreIfExists")).lower() == "true"
    call.table().versions.create_branch(call.needed("branch"), call.given("tag"), ignore_if_exists=lenient)
    return DONE


def _delete_branch(call: ProcedureCall) -> Answer:
    table = call.table()
    # Several are separated by commas, as in Paimon; all are looked up before one is deleted.
    names = [name.strip() for name in call.needed("branch").split(",") if name.strip()]
    unknown = set(names) - set(table.versions.branches())
    if unknown:
        raise BranchNotFoundError(f"There is no branch {', '.join(map(repr, sorted(unknown)))} of '{table.name}'.")
    for name in names:
        table.versions.delete_branch(name)
    return DONE


def _rename_branch(call: ProcedureCall) -> Answer:
    call.table().versions.rename_branch(call.needed("from_branch"), call.needed("to_branch"))
    return DONE


def _fast_forward(call: ProcedureCall) -> Answer:
    call.table().versions.fast_forward(call.needed("branch"))
    return DONE


def _merge_branch(call: ProcedureCall) -> Answer:
    call.table().versions.merge_branch(call.needed("source_branch"), str(call.given("target_branch") or MAIN_BRANCH))
    return DONE


_OF_BRANCHES = (
    Procedure(
        name="merge_branch",
        description="Adds the rows of a branch to another one, or to the table; of append tables.",
        parameters=(TABLE, required("source_branch"), optional("target_branch")),
        call=_merge_branch,
    ),
    Procedure(
        name="create_branch",
        description="Creates a branch: empty, or with the rows of a tag.",
        parameters=(TABLE, _BRANCH, optional("tag"), optional("ignoreIfExists")),
        call=_create_branch,
    ),
    Procedure(
        name="delete_branch",
        description="Deletes branches.",
        parameters=(TABLE, _BRANCH),
        call=_delete_branch,
    ),
    Procedure(
        name="rename_branch",
        description="Gives a branch another name.",
        parameters=(TABLE, required("from_branch"), required("to_branch")),
        call=_rename_branch,
    ),
    Procedure(
        name="fast_forward",
        description="Fast-forwards the table to one of its branches.",
        parameters=(TABLE, _BRANCH),
        call=_fast_forward,
    ),
)

PROCEDURES = (*_OF_TAGS, *_OF_BRANCHES, *_OF_SNAPSHOTS, *_OF_CONSUMERS)
