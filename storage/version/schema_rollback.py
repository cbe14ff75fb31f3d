"""Rollback of the schema of a table: the schema files after one are deleted.

No snapshot, tag, changelog or data file may need a later schema; roll the table itself back first. The deletion is one
change of the history (meta.snapshot.history_journal), newest file first. A process that is killed in it leaves a
journal that the next one finishes. A writer that commits at the same time, under a schema that is being deleted, gets
its schema back, and the rollback is refused.

Source: paimon-core's SchemaManager.rollbackTo, which does not look into manifests.
"""

from collections.abc import Iterator
from contextlib import suppress

from interbed.storage.base.errors import CommitConflictError, InvalidInputError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.meta.snapshot.history_journal import FileChange, HistoryChange, change_history, deletion
from interbed.storage.meta.snapshot.manager import ChangelogManager
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.scan.manifest_reader import ManifestReader
from interbed.storage.version.branch_stores import tagged


def roll_back_schema(store: FileStore, schema_id: int) -> TableSchema:
    """Make the schema of that id the newest, and return it.

    InvalidInputError without such a schema, or if a later one is needed. CommitConflictError if a writer commits under
    a later one at the same time.
    """
    store.check_exclusive()
    deleted: dict[int, str] = {}

    def make() -> HistoryChange:
        deleted.clear()
        ids = store.schemas.ids()
        if schema_id not in ids:
            raise InvalidInputError(
                f"Schema {schema_id} of {store.location} does not exist. Its schemas are "
                f"{', '.join(map(str, ids))}; name one of them."
            )
        _check_unused(store, schema_id)
        then: list[FileChange] = []
        for number in sorted((each for each in ids if each > schema_id), reverse=True):
            deleted[number] = store.schemas.schema(number).to_json()
            then += deletion(store.file_io, store.paths, store.paths.schema(number))
        return HistoryChange(what=f"rollback to schema {schema_id}", then=tuple(then))

    with store.environment.new_lock().hold():
        change_history(store.file_io, store.paths, make)
        # Without a lock a writer may have looked for its schema before that was deleted.
        with suppress(InvalidInputError):
            _check_unused(store, schema_id)
            return store.schemas.schema(schema_id)
        for number in sorted(deleted):
            store.file_io.create_exclusive(store.paths.schema(number), deleted[number].encode())
    raise CommitConflictError(
        f"A writer has committed to {store.location} under a schema after {schema_id} at the same time; the schemas "
        "were restored. Stop the writer, or roll the table back first."
    )


def _check_unused(store: FileStore, schema_id: int) -> None:
    """Raise InvalidInputError if a version of the table needs a schema after this one."""
    for number in _needed(store):
        if number > schema_id:
            raise InvalidInputError(
                f"Cannot rollback to schema {schema_id} of {store.location}: schema {number} is still referenced by "
                "snapshots/tags/changelogs. Roll the table back to a snapshot before it, or let these expire, first."
            )


def _needed(store: FileStore) -> Iterator[int]:
    """Yield the schemas of all versions of the table, and of the files that they name."""
    tags = tagged(store)
    for error in tags.unjudged.values():
        raise error
    changelogs = ChangelogManager(store.file_io, store.paths).all()
    reader, known = ManifestReader(store.file_io, store.paths), set[str]()
    for version in (*store.snapshots.all(), *tags.snapshots, *changelogs):
        yield version.schema_id
        yield from _of_files(reader, version, known)


def _of_files(reader: ManifestReader, version: Snapshot, known: set[str]) -> Iterator[int]:
    # A writer that was opened under a later schema may have committed before the snapshots that are left.
    for manifest in (*reader.data(version), *reader.changelog(version)):
        if manifest.file_name not in known:
            known.add(manifest.file_name)
            yield from {entry.file.schema_id for entry in reader.manifest(manifest)}
