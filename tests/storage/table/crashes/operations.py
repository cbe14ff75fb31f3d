"""The operations that tests kill, by their names, and the kinds of tables that support them."""

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import interbed
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.storage.commit.stream_commits import EpochCommit
from interbed.storage.table.table import Table
from interbed.storage.version.maintenance import expire_changelogs
from interbed.storage.version.orphans import remove_orphan_files
from tests.storage.table.crashes.campaign import Operation
from tests.storage.table.crashes.kinds import BRANCH, LATER, NAME, Kind, batch, put
from tests.support.dying_disk import DyingDisk, SimulatedKill, opened

_OLD = LATER - 7_200


def of(change: Callable[[Table], object], **more: object) -> Operation:
    """Return the operation that calls the given function with the table."""
    return Operation(act=lambda catalog, table: change(table), **more)  # type: ignore[arg-type]


def history(table: Table) -> None:
    """Write three times, with a tag after the second write and a branch from it, which gets one more write."""
    put(table, 1, 2)
    table.versions.create_tag("early", table.store.snapshots.latest_id())
    table.versions.create_branch(BRANCH, "early")
    put(table.branch(BRANCH), 33)
    put(table, 3)
    if table.options.data_evolution_enabled:
        table.update({"v": 12}, "id = 2")


def _root(table: Table) -> Path:
    return Path(table.location)


def _dead(change: Callable[[Table], object], dies_before: str) -> Callable[[FileSystemCatalog, Table], None]:
    """Return a preparation by a process that dies before the first such step of the change."""

    def prepare(catalog: FileSystemCatalog, table: Table) -> None:
        killed = opened(Path(catalog.warehouse), DyingDisk(dies_before))
        try:
            change(killed.get_table(NAME))
        except SimulatedKill:
            return
        raise AssertionError(f"no step was {dies_before}")

    return prepare


def _set(**options: str) -> Callable[[FileSystemCatalog, Table], None]:
    def prepare(catalog: FileSystemCatalog, table: Table) -> None:
        changes = [interbed.SchemaChange.set_option(key.replace("_", "-"), value) for key, value in options.items()]
        catalog.alter_table(NAME, changes)

    return prepare


def _uncompacted(catalog: FileSystemCatalog, *values: int) -> None:
    """Write without the due compactions."""
    for only in ("true", "false"):
        catalog.alter_table(NAME, interbed.SchemaChange.set_option("write-only", only))
        if only == "true":
            put(catalog.get_table(NAME), *values)


def _more(table: Table) -> None:
    """Write rows of old and new keys, with a column that the table lacks."""
    rows = batch((1, 1, 6), (0, 106, 6))
    table.append(rows.append_column("w", pa.array([7, 8], pa.int64())), merge_schema=True)


def _changes(table: Table) -> None:
    rows = batch((1, 1, 9), (1, 103, 3), (0, 109, 9))
    table.write_changes(rows.append_column("_row_kind", pa.array([2, 3, 0], pa.int8())))


def _numbered(table: Table) -> None:
    """Commit like a job that numbers its commits and looks up those that it has made."""
    commit = table.new_commit("job")
    if commit.filter_committed([7]):
        with table.new_write("job") as write:
            write.write_arrow(batch((1, 1, 7), (1, 107, 7)))
            commit.commit(write.prepare_commit(), identifier=7)


def _epoch(table: Table) -> None:
    """Commit like a stream that records its epochs."""
    with table.new_write("stream") as write:
        write.write_arrow(batch((1, 1, 8), (0, 108, 8)))
        messages = write.prepare_commit()
    commit = EpochCommit(table.store, "stream")
    if commit.commit(messages, 3) is None:
        table.new_commit("stream").abort(messages)


def _expire(table: Table) -> None:
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER)


def _remove_orphans(table: Table) -> None:
    remove_orphan_files(table.store, older_than_millis=(LATER - 1) * 1000, clock=lambda: LATER)


def _lose_a_file(catalog: FileSystemCatalog, table: Table) -> None:
    """Delete a data file of the newest snapshot behind the table's back."""
    entry = table.new_scan().entries()[0]
    os.unlink(f"{table.store.paths.bucket_directory(entry.bucket_id)}/{entry.file.file_name}")


def _bad_hints(catalog: FileSystemCatalog, table: Table) -> None:
    for name in ("LATEST", "EARLIEST"):
        (_root(table) / "snapshot" / name).write_bytes(b"99")


def _other_column(catalog: FileSystemCatalog, table: Table) -> None:
    change = interbed.SchemaChange.add_column("other", interbed.data_type("INT"))
    if "other" not in table.field_names:
        catalog.alter_table(NAME, change)


def _consume(table: Table) -> None:
    table.versions.reset_consumer("reader", table.store.snapshots.latest_id())


WRITES: dict[str, Operation] = {
    "write": of(lambda t: put(t, 6), adds=True),
    "write with a new column": of(_more, adds=True),
    "write of changes": of(_changes, adds=True),
    "numbered commit": of(_numbered, adds=True, once=True),
    "commit of an epoch": of(_epoch, adds=True, once=True),
    "delete": of(lambda t: t.delete("id = 1")),
    "update of a column": of(lambda t: t.update({"v": 11}, "id < 3")),
    "overwrite": of(lambda t: t.overwrite(batch((1, 1, 9), (0, 8, 9)), {}), in_changelog=False),
    "overwrite of a partition": of(lambda t: t.overwrite(batch((1, 1, 9)), {"p": 1}), in_changelog=False),
    "overwrite of partitions in the data": of(lambda t: t.overwrite(batch((1, 1, 9))), in_changelog=False),
    "delete_partitions": of(lambda t: t.delete_partitions({"p": 1}), in_changelog=False),
    "truncate": of(lambda t: t.truncate(), in_changelog=False),
    "truncate of a partition": of(lambda t: t.truncate({"p": 1}), in_changelog=False),
    "expire_partitions": Operation(
        act=lambda catalog, table: catalog.expire_partitions(
            NAME, expiration_time="1 ms", expire_strategy="update-time", clock=lambda: LATER
        ),
        in_changelog=False,
    ),
}
UPKEEP: dict[str, Operation] = {
    "compact": of(lambda t: t.compact(full=True), prepare=lambda catalog, table: _uncompacted(catalog, 5)),
    "compact what is due": of(
        lambda t: t.compact(full=False), prepare=lambda catalog, table: _uncompacted(catalog, 5, 6, 7, 8)
    ),
    "compact in an order": of(lambda t: t.compact(order_strategy="zorder", order_by="id,v")),
    "rescale": of(lambda t: t.maintenance.rescale(3), in_changelog=False),
    "analyze": of(lambda t: t.maintenance.analyze()),
    "compact_manifests": of(lambda t: t.maintenance.compact_manifests()),
    "rewrite_file_index": of(
        lambda t: t.maintenance.rewrite_file_index(), prepare=_set(**{"file-index.bloom-filter.columns": "v"})
    ),
    "alter": Operation(act=_other_column),
    "write with maintenance": of(
        lambda t: put(t, 6),
        adds=True,
        prepare=_set(
            **{
                "snapshot.num-retained.max": "3",
                "snapshot.num-retained.min": "1",
                "tag.automatic-creation": "batch",
                "tag.batch.customized-name": "batch",
            }
        ),
    ),
}
VERSIONS: dict[str, Operation] = {
    "create_tag": of(lambda t: t.versions.create_tag("new")),
    "replace_tag": of(lambda t: t.versions.replace_tag("early")),
    "create_automatic_tags": of(
        lambda t: t.versions.create_automatic_tags(),
        prepare=_set(**{"tag.automatic-creation": "batch", "tag.batch.customized-name": "early"}),
    ),
    "expire_tags": of(lambda t: t.versions.expire_tags(older_than=LATER * 1000)),
    "create_branch": of(lambda t: t.versions.create_branch("new", "early")),
    "delete_branch": of(lambda t: t.versions.delete_branch(BRANCH)),
    "merge_branch": of(lambda t: t.versions.merge_branch(BRANCH), in_changelog=False),
    "fast_forward": of(lambda t: t.versions.fast_forward(BRANCH), in_changelog=False),
    "rollback_to": of(lambda t: t.versions.rollback_to("early"), in_changelog=False),
    "expire_snapshots": of(_expire),
    "expire_changelogs": of(
        lambda t: expire_changelogs(t.store, clock=lambda: LATER), prepare=lambda catalog, table: _expire(table)
    ),
    "remove_orphan_files": of(_remove_orphans, prepare=_dead(lambda t: put(t, 6), "link")),
    "remove_unexisting_files": of(
        lambda t: t.maintenance.remove_unexisting_files(), prepare=_lose_a_file, in_changelog=False, damages=True
    ),
    "reset_consumer": of(_consume),
    "clear_consumers": of(lambda t: t.versions.clear_consumers(), prepare=lambda catalog, table: _consume(table)),
    "purge_files": of(lambda t: t.maintenance.purge_files(), in_changelog=False),
    "fsck after an expiry": of(lambda t: t.maintenance.fsck(repair=True), prepare=_dead(_expire, "unlink snapshot-")),
    "opening after a rollback": of(
        lambda t: t.snapshots(),
        prepare=_dead(lambda t: t.versions.rollback_to("early"), "unlink snapshot-"),
        in_changelog=False,
    ),
    "fsck of hints": of(lambda t: t.maintenance.fsck(repair=True), prepare=_bad_hints),
}
OPERATIONS: dict[str, Operation] = {**WRITES, **UPKEEP, **VERSIONS}


def can(kind: Kind, operation: str) -> bool:
    """Return whether tables of the kind support the operation."""
    retracts = bool(kind.keys) and kind.options.get("merge-engine") not in ("first-row", "aggregation")
    fixed = int(kind.options["bucket"]) > 0
    rules = {
        "write of changes": retracts,
        "delete": retracts or not (kind.keys or kind.evolves),
        "update of a column": kind.evolves,
        "rewrite_file_index": not kind.evolves,
        "remove_unexisting_files": not kind.evolves,
        "overwrite of a partition": bool(kind.partitions),
        "overwrite of partitions in the data": bool(kind.partitions),
        "delete_partitions": bool(kind.partitions),
        "truncate of a partition": bool(kind.partitions),
        "expire_partitions": bool(kind.partitions),
        "compact in an order": not (kind.keys or fixed or kind.evolves),
        "rescale": fixed,
        # Rows of two branches may have one id.
        "merge_branch": not kind.keys and "row-tracking.enabled" not in kind.options,
        "expire_changelogs": "changelog.time-retained" in kind.options,
    }
    return rules.get(operation, True)
