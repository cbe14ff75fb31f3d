"""Manager of the schema files of a table, `schema/schema-<id>`.

A schema outline has the readable parts of a table's newest schema file, even if this version can't read the table. A
file of a newer version, with unknown types, or with damaged parts still has names, keys and options; missing parts are
left out.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from interbed.storage.base.errors import (
    CommitFailedError,
    CommitStateUnknownError,
    CorruptFileError,
    InterbedError,
    InvalidInputError,
    InvalidOptionError,
)
from interbed.storage.io.api import FileIO
from interbed.storage.io.parallel import both
from interbed.storage.meta.options.stream import FALLBACK_BRANCH
from interbed.storage.meta.paths import COMMIT_TURN, LINE_JOURNAL, TablePaths, numbers_of
from interbed.storage.meta.schema.table_schema import OptionRules, Schema, TableSchema
from interbed.storage.meta.snapshot.manager import SnapshotManager

if TYPE_CHECKING:
    from interbed.storage.meta.schema.change import SchemaChange
    from interbed.storage.meta.snapshot.snapshot import Snapshot

_log = logging.getLogger(__name__)
_PREFIX = "schema-"
_COMMIT_RETRIES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledSchemas:
    """Ids of all schemas, ascending, whether their history was changing, and whether a writer has its turn."""

    ids: list[int]
    was_changing: bool
    is_turn: bool


def was_dropped(location: str) -> str:
    """Return the error text for a change of a table that is missing or replaced."""
    return (
        f"The table at {location} is not the one that was opened: it was dropped or renamed, and perhaps another one "
        "made, or it has the schemas of a branch now; nothing was changed. Get it from its catalog again."
    )


def _readable_content(schema: TableSchema) -> bytes:
    """Return the content of the schema file. Raises InvalidInputError unless it is read as the same schema."""
    try:
        content = schema.to_json().encode()
        read = TableSchema.from_json(content, source="the new schema")
    except (CorruptFileError, UnicodeEncodeError, RecursionError, TypeError, ValueError) as error:
        raise InvalidInputError(f"The schema was not written, because it could not be read again: {error}") from error
    if read != schema:
        raise InvalidInputError(f"The schema was not written, because it would be read as {read!r}.")
    return content


class SchemaManager:
    """Schemas of one table; schema files never change, so they are cached. Thread-safe."""

    def __init__(self, file_io: FileIO, paths: TablePaths, rules: OptionRules) -> None:
        self._file_io = file_io
        self._paths = paths
        self._rules = rules
        self._directory = paths.schema(0).rpartition("/")[0]
        self._cache: dict[int, TableSchema] = {}
        self._guard = Lock()
        self._known_pair: tuple[int, str] | None = None
        self._first: TableSchema | None = None

    def latest(self) -> TableSchema | None:
        """Return the newest valid schema; None when there is no table here.

        A replacement (schema.replacement) is valid from its first snapshot on.
        """
        if not self._cache:
            # Most tables have one schema, so read it together with the listing of an object store.
            ids, _ = both(self._file_io, self.ids, self._read_first)
            return self.newest_of(ids)
        return self.newest_of(self.ids())

    def _read_first(self) -> None:
        with suppress(InterbedError, OSError):
            self._first = self.schema(0)

    def newest_of(self, ids: Sequence[int]) -> TableSchema | None:
        """Return the newest valid schema of ascending ids that were just listed; None without any."""
        for schema_id in reversed(ids):
            schema = self.schema(schema_id)
            if schema_id == 0 or not schema.is_replacement or self._is_in_use(schema_id):
                return schema
            # It may be withdrawn, and replaced by another one.
            with self._guard:
                self._cache.pop(schema_id, None)
        return None

    def next_id(self) -> int:
        """Return the id of the next schema file."""
        return max(self.ids(), default=-1) + 1

    def is_replaced(self, schema: TableSchema, by: int) -> bool:
        """Return whether a schema after the given one, up to the id `by`, replaced the table."""
        return any(self.schema(i).is_replacement for i in range(schema.id + 1, by + 1))

    def take_back(self, schema: TableSchema) -> None:
        """Delete the file of a schema under which nothing was committed."""
        with self._guard:
            self._cache.pop(schema.id, None)
        self._file_io.delete_quietly([self._paths.schema(schema.id)])

    def _is_in_use(self, schema_id: int) -> bool:
        snapshot = SnapshotManager(self._file_io, self._paths).latest()
        return snapshot is not None and snapshot.schema_id >= schema_id

    def schema(self, schema_id: int) -> TableSchema:
        """Return the schema of that id; raises CorruptFileError naming the file when it is missing or not a schema."""
        with self._guard:
            cached = self._cache.get(schema_id)
        if cached is not None:
            return cached
        path = self._paths.schema(schema_id)
        try:
            content = self._file_io.read_bytes(path)
        except FileNotFoundError:
            raise CorruptFileError(f"The schema file {path} is missing.") from None
        schema = TableSchema.from_json(content, source=path)
        if schema.id != schema_id:
            raise CorruptFileError(f"{path} holds the schema {schema.id}.")
        with self._guard:
            self._cache[schema_id] = schema
        return schema

    def is_known(self, schema_id: int) -> bool:
        """Return whether the schema of that id was read, so that it existed recently."""
        return schema_id in self._cache

    def is_gone(self, schema: TableSchema, beside: "Snapshot | None" = None) -> bool:
        """Return whether the table with the schema was dropped, and perhaps recreated.

        `beside` is a snapshot that has just been seen here: if it was here together with the schema before, this is the
        same table, without another request.
        """
        pair = None if beside is None or beside.uuid is None else (schema.id, beside.uuid)
        if pair is not None and pair == self._known_pair:
            return False
        path = self._paths.schema(schema.id)
        try:
            found = TableSchema.from_json(self._file_io.read_bytes(path), source=path)
        except FileNotFoundError:
            return True
        is_other = (found.time_millis, found.names) != (schema.time_millis, schema.names)
        self._known_pair = None if is_other else pair
        return is_other

    def is_another(self, schema: TableSchema, beside: "Snapshot | None" = None) -> bool:
        """Return the same as is_gone, but False for a table that has the schemas of one of its branches now.

        The first schema stays then.
        """
        if not self.is_gone(schema, beside):
            return False
        return schema.id == 0 or self._first is None or self.is_gone(self._first)

    def note_beside(self, schema: TableSchema, snapshot: "Snapshot") -> None:
        """Record that the snapshot was made in the table with the schema, on a snapshot known to belong to it."""
        self._known_pair = None if snapshot.uuid is None else (schema.id, snapshot.uuid)

    def ids(self) -> list[int]:
        """Return all ids, ascending, after an unfinished change of the history was completed.

        If that change can't be read, the versions are those of before it or after it.
        """
        try:
            return self.settled().ids
        except CorruptFileError as error:
            _log.warning("%s", error)
            return numbers_of(self._names(), _PREFIX)

    def settled(self) -> "SettledSchemas":
        """Return the result of one listing, after an unfinished change of the history was completed.

        Raises CorruptFileError for a change that can't be read.
        """
        names = self._names()
        is_turn = COMMIT_TURN in names
        if LINE_JOURNAL not in names:
            return SettledSchemas(ids=numbers_of(names, _PREFIX), was_changing=False, is_turn=is_turn)
        from interbed.storage.meta.snapshot.history_journal import finish_history_change

        try:
            finish_history_change(self._file_io, self._paths)
        finally:
            with self._guard:
                self._cache.clear()
        return SettledSchemas(ids=numbers_of(self._names(), _PREFIX), was_changing=True, is_turn=is_turn)

    def _names(self) -> list[str]:
        return [s.name for s in self._file_io.list(self._directory) if not s.is_directory]

    def list_all(self) -> list[TableSchema]:
        """Return all schemas, ascending by id."""
        return [self.schema(i) for i in self.ids()]

    def create_table(self, schema: Schema | TableSchema) -> TableSchema:
        """Create the table's first schema; raises InvalidInputError when there is a table already."""
        first = schema.to_table_schema() if isinstance(schema, Schema) else schema
        self._rules(first)
        if self.ids() or not self.commit(first):
            raise InvalidInputError(f"There is a table already: {self._paths.schema(0)} exists.")
        return first

    def _check_fallback(self, schema: TableSchema, before: TableSchema | None) -> None:
        """Refuse to fall back to a missing branch; raises InvalidOptionError."""
        name = schema.core.fallback_branch
        if name is None or (before is not None and before.core.fallback_branch == name):
            return
        directory = f"{self._paths.branch_directory(name)}/schema"
        if not any(s.name.startswith(_PREFIX) for s in self._file_io.list(directory)):
            raise InvalidOptionError(
                f"Option '{FALLBACK_BRANCH}' names the branch '{name}', which does not exist; create it first."
            )

    def _has_snapshots(self) -> bool:
        directory = self._paths.snapshot(0).rpartition("/")[0]
        return any(s.name.startswith("snapshot-") for s in self._file_io.list(directory))

    def commit(self, schema: TableSchema) -> bool:
        """Create the schema file. Return False when another writer took the id.

        Raises InvalidInputError for a schema that could not be read back: nothing is written.
        """
        if schema.id == 0:
            self._check_fallback(schema, None)
        return self._file_io.create_exclusive(self._paths.schema(schema.id), _readable_content(schema))

    def change(
        self,
        changes: "Sequence[SchemaChange]",
        *,
        check: Callable[[TableSchema, TableSchema], None] | None = None,
        of: TableSchema | None = None,
    ) -> TableSchema:
        """Apply the changes to the newest schema and create the next; repeated when another writer comes first.

        `check` sees the old and the new schema and may refuse. `of` is a schema of the table by which a replaced table
        is noticed. Raises InvalidInputError, CommitFailedError, CorruptFileError.
        """
        from interbed.storage.meta.schema.apply import apply_changes
        from interbed.storage.meta.snapshot.history_journal import find_history_change

        find_history_change(self._file_io, self._paths)
        for _ in range(_COMMIT_RETRIES):
            # Take the id first: a schema that is created in between takes this id, so that its changes can't be
            # skipped.
            schema_id = self.next_id()
            current = self.latest()
            if current is None:
                raise InvalidInputError(f"There is no table: {self._directory} has no schema.")
            changed = apply_changes(current, changes, has_snapshots=self._has_snapshots(), schema_id=schema_id)
            self._rules(changed, before=current, at=(self._file_io, self._paths))
            self._check_fallback(changed, current)
            if check is not None:
                check(current, changed)
            if of is not None and self.is_gone(of):
                raise CommitFailedError(was_dropped(self._paths.location))
            if not self.commit(changed):
                continue
            if of is not None and self.is_gone(of):
                if self._is_in_use(changed.id):
                    raise CommitStateUnknownError(
                        f"The table at {self._paths.location} was dropped and recreated while its schema was changed; "
                        f"the new one has committed under the schema {changed.id} already, and keeps it."
                    )
                self.take_back(changed)
                raise CommitFailedError(was_dropped(self._paths.location))
            return changed
        raise CommitFailedError(
            f"{_COMMIT_RETRIES} other writers changed the schema in {self._directory} meanwhile; try again."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnOutline:
    """Name and type of a column; `type` as the file spells it."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaOutline:
    """Newest schema of the table at `location`, as far as it is known; `id` is None where there is no file."""

    location: str
    id: int | None = None
    columns: tuple[ColumnOutline, ...] = ()
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None


def read_outline(file_io: FileIO, location: str) -> SchemaOutline:
    """Return the outline of the table at a location; raises StorageAccessError only."""
    files = (s.name for s in file_io.list(f"{location}/schema") if not s.is_directory)
    ids = numbers_of(files, _PREFIX)
    if not ids:
        return SchemaOutline(location=location)
    newest = ids[-1]
    try:
        value = json.loads(file_io.read_bytes(f"{location}/schema/{_PREFIX}{newest}"))
    except (FileNotFoundError, ValueError):
        value = None
    members = value if isinstance(value, dict) else {}
    comment = members.get("comment")
    return SchemaOutline(
        location=location,
        id=newest,
        columns=tuple(_column(f) for f in _list(members.get("fields")) if isinstance(f, dict) and "name" in f),
        primary_keys=tuple(map(str, _list(members.get("primaryKeys")))),
        partition_keys=tuple(map(str, _list(members.get("partitionKeys")))),
        options=_options(members.get("options")),
        comment=None if comment is None else str(comment),
    )


def _column(value: Mapping[str, Any]) -> ColumnOutline:
    comment = value.get("description")
    return ColumnOutline(
        name=str(value["name"]), type=_type(value.get("type")), comment=None if comment is None else str(comment)
    )


def _type(value: object) -> str:
    """Return the type in SQL, even if it is unknown."""
    if not isinstance(value, dict):
        return "?" if value is None else str(value)
    name, _, more = str(value.get("type", "?")).partition(" ")
    parts = [_type(value[key]) for key in ("key", "value", "element") if key in value]
    parts += [f"{f.get('name')} {_type(f.get('type'))}" for f in _list(value.get("fields")) if isinstance(f, dict)]
    return f"{name}<{', '.join(parts)}>{' ' if more else ''}{more}"


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _options(value: object) -> dict[str, str]:
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, dict) else {}
