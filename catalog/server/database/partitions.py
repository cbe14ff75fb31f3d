"""Partitions in SQL: one statement for each question, whatever the number of partitions.

The partitions of a table refer to a set, not to the table's row: when the table is dropped the database detaches the
set, which takes no time, and `purge` removes the rows later, in batches. Locations are relative to the set's.
"""

import dataclasses
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, text, update
from sqlalchemy.exc import IntegrityError

from interbed.catalog.server.database.documents import partition_document, partition_from, table_from
from interbed.catalog.server.database.engine import insert_unless_taken
from interbed.catalog.server.database.models import (
    PartitionMarkRow,
    PartitionRow,
    PartitionSetRow,
    PartitionStorageRow,
    TableRow,
)
from interbed.catalog.server.database.models.metastore import KEY_COLUMNS
from interbed.catalog.server.database.partition_rows import (
    STORED_COLUMNS,
    FilterSql,
    PartitionSequence,
    StoredFields,
    is_elsewhere,
    key_forms,
    moved_text,
    name_values,
    partition_of,
    read_location,
    row_of,
    with_location,
)
from interbed.catalog.server.service.directories.locations import indexed_place
from interbed.catalog.server.service.filters.tree import EVERYTHING, PartitionFilter
from interbed.catalog.server.service.model import MetastoreColumn, MetastorePartition, StorageDescriptor
from interbed.catalog.server.service.repository import StoredRow
from interbed.catalog.server.service.warehouse import child, directories_of

ROWS_FETCHED = 10_000
"""Rows fetched at a time: an answer of millions of rows must not be in memory twice."""

ROWS_TRIED = 2_000
"""Partitions that are scanned, in their order, for the first few that a filter selects."""

ROWS_PURGED = 2_000
"""Rows of dropped tables that one unit of work removes by default: other writers wait for it."""

_SET = select(PartitionSetRow.id, PartitionSetRow.location).where(PartitionSetRow.table_id == bindparam("table_id"))
_FIND = (
    f"SELECT p.id, s.location AS root, {', '.join(f'p.{name}' for name in STORED_COLUMNS.split(', '))} "
    "FROM partition_sets s JOIN partitions p ON p.set_id = s.id AND p.name = :name WHERE s.table_id = :table_id"
)
_UPDATE = (
    "UPDATE partitions SET storage_id = :storage_id, name = :name, key_0 = :key_0, key_1 = :key_1, key_2 = :key_2, "
    "key_3 = :key_3, more_keys = :more_keys, value_list = :value_list, location = :location, place = :place, "
    "create_time = :create_time, last_access_time = :last_access_time, parameters = :parameters WHERE id = :id"
)
_SHARE = "UPDATE partitions SET storage_id = :new WHERE set_id = :set_id AND storage_id = :old"
_TABLE_OF = (
    select(PartitionSetRow.table_id)
    .join(PartitionRow, PartitionRow.set_id == PartitionSetRow.id)
    .where(PartitionRow.id == bindparam("id"))
)
_TYPES = {
    **dict.fromkeys(("set_id", "storage_id", "create_time", "last_access_time"), "bigint"),
    **dict.fromkeys(
        ("name", "key_0", "key_1", "key_2", "key_3", "more_keys", "value_list", "location", "place", "parameters"),
        "text",
    ),
}
_INSERT_ARRAYS = (
    f"INSERT INTO partitions ({', '.join(_TYPES)}) SELECT * FROM unnest("
    + ", ".join(f"CAST(:{name} AS {kind}[])" for name, kind in _TYPES.items())
    + ")"
)


class SqlPartitions:
    """Partitions of a table by name. A caller that writes holds the table's row."""

    __slots__ = ("_connection", "_postgresql")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._postgresql = connection.dialect.name == "postgresql"

    def find(self, table_id: int, name: str, *, for_update: bool = False) -> StoredRow[MetastorePartition] | None:
        """Return the partition with its row id, or None."""
        statement = text(_FIND + (" FOR UPDATE OF p" if for_update and self._postgresql else ""))
        row = self._connection.execute(statement, {"table_id": table_id, "name": name}).one_or_none()
        if row is None:
            return None
        return StoredRow(id=row.id, value=partition_of(row[2:], row.root, self._storages([row[2:]])))

    def select(
        self,
        table_id: int,
        names: Collection[str] | None = None,
        limit: int | None = None,
        *,
        where: PartitionFilter = EVERYTHING,
    ) -> Sequence[MetastorePartition]:
        """Return the partitions of these names (all if None) that a filter selects, ordered by name, at
        most `limit`.
        """
        found = self._set(table_id)
        if found is None:
            return []
        set_id, root = found
        rows = self._rows(STORED_COLUMNS, set_id, names, where, limit)
        storages = self._storages(rows)
        return PartitionSequence(rows, lambda row: partition_of(row, root, storages))

    def names(self, table_id: int, limit: int | None = None, *, where: PartitionFilter = EVERYTHING) -> list[str]:
        """Return the names of the partitions that a filter selects, in order, at most `limit`."""
        found = self._set(table_id)
        if found is None:
            return []
        if where == EVERYTHING and limit is None:
            # Selected without other columns: the longest of all answers should not take the memory twice.
            statement = "SELECT name FROM partitions WHERE set_id = :set_id ORDER BY name"
            parts = self._parts(statement, {"set_id": found[0]}, streamed=True)
            return [name for part in parts for (name,) in part]
        return [name for (name,) in self._rows("name", found[0], None, where, limit)]

    def names_after(self, table_id: int, last: str, limit: int) -> list[str]:
        """Return up to `limit` names that come after this one, in order, for paging through all of them."""
        found = self._set(table_id)
        if found is None:
            return []
        statement = "SELECT name FROM partitions WHERE set_id = :set_id AND name > :last ORDER BY name LIMIT :limit"
        rows = self._fetched(statement, {"set_id": found[0], "last": last, "limit": limit})
        return [name for (name,) in rows]

    def present(self, table_id: int, names: Collection[str]) -> set[str]:
        """Return those of the names that partitions have."""
        found = self._set(table_id)
        return set() if found is None else {row[0] for row in self._rows("name", found[0], names, EVERYTHING, None)}

    def count(self, table_id: int, where: PartitionFilter = EVERYTHING) -> int:
        """Return the number of partitions that a filter selects."""
        found = self._set(table_id)
        if found is None:
            return 0
        condition = FilterSql(where, self._connection.dialect.name)
        statement = text(f"SELECT count(*) FROM partitions WHERE set_id = :set_id AND {condition.condition}")
        counted: int = self._connection.execute(statement, {"set_id": found[0], **condition.parameters}).scalar_one()
        return counted

    def add(self, table_id: int, partitions: Iterable[tuple[str, MetastorePartition]]) -> list[str]:
        """Store new partitions; returns the names that were taken, whose partitions are not stored."""
        wanted = list(partitions)
        taken = self.present(table_id, [name for name, _ in wanted])
        rows = self._new_rows(table_id, [each for each in wanted if each[0] not in taken])
        if rows and self._postgresql:
            # One statement with an array for each column: many times faster than a statement for each row.
            self._connection.execute(text(_INSERT_ARRAYS), {name: [row[name] for row in rows] for name in _TYPES})
        elif rows:
            self._connection.execute(insert(PartitionRow), rows)
        return [name for name, _ in wanted if name in taken]

    def replace(self, partition_id: int, name: str, partition: MetastorePartition) -> bool:
        """Store the partition, perhaps under another name; False if that name is taken."""
        table_id: Any = self._connection.execute(_TABLE_OF, {"id": partition_id}).scalar_one()
        try:
            with self._connection.begin_nested():
                self.replace_all(table_id, [(partition_id, name, partition)])
        except IntegrityError:
            return False
        return True

    def replace_all(self, table_id: int, changed: Sequence[tuple[int, str, MetastorePartition]]) -> None:
        """Store partitions of one table, each by its row id, with its name, which no other partition has."""
        rows = self._new_rows(table_id, [(name, partition) for _, name, partition in changed])
        if rows:
            ids = ({"id": partition_id} for partition_id, _, _ in changed)
            self._connection.execute(text(_UPDATE), [row | key for row, key in zip(rows, ids, strict=True)])

    def ids(self, table_id: int, names: Collection[str]) -> dict[str, int]:
        """Return the row ids of the partitions of these names that exist."""
        found = self._set(table_id)
        if found is None:
            return {}
        return {row[0]: row[1] for row in self._rows("name, id", found[0], names, EVERYTHING, None)}

    def remove(self, table_id: int, names: Collection[str]) -> int:
        """Remove the partitions of these names and return how many there were."""
        found = self._set(table_id)
        if found is None or not names:
            return 0
        statement = text(f"DELETE FROM partitions WHERE set_id = :set_id AND name {self._among('names')}")
        return self._connection.execute(statement, {"set_id": found[0], "names": self._list(names)}).rowcount

    def shared(self, table_id: int, places: Sequence[tuple[str, str]]) -> set[str]:
        """Return those of the places (a name and a location each) whose location partitions of other names share."""
        found = self._set(table_id)
        if found is None:
            return set()
        set_id, root = found
        # Nearly all partitions are in the directory of their name, and then none is in another one's directory.
        statement = "SELECT name, location FROM partitions WHERE set_id = :set_id AND location IS NOT NULL"
        outer: dict[str, set[str]] = {}
        for name, location in self._connection.execute(text(statement), {"set_id": set_id}):
            for directory in directories_of(read_location(root, name, location) or ""):
                outer.setdefault(directory, set()).add(name)
        return {
            location
            for name, location in places
            if outer.get(directories_of(location)[-1], set()) - {name}
            or (root is not None and self._is_named_in(set_id, root, name, location))
        }

    def _is_named_in(self, set_id: int, root: str, name: str, location: str) -> bool:
        """Return whether another partition in the directory of its name lies in the location of this one."""
        inside = child(root, "")
        if location == child(root, name) or not location.startswith(inside):
            return False
        below = location[len(inside) :].rstrip("/")
        statement = (
            "SELECT 1 FROM partitions WHERE set_id = :set_id AND location IS NULL AND name <> :name "
            "AND (name = :below OR (name >= :first AND name < :last)) LIMIT 1"
        )
        # The character after the slash is 0.
        parameters = {"set_id": set_id, "name": name, "below": below, "first": f"{below}/", "last": f"{below}0"}
        return self._connection.execute(text(statement), parameters).first() is not None

    def locations_outside(self, table_id: int, location: str) -> list[str]:
        """Return the locations of the partitions that do not lie below the given one."""
        found = self._set(table_id)
        if found is None:
            return []
        set_id, root = found
        inside = location.rstrip("/") + "/"
        # Nearly always the set's location is the table's, and only rows with a location of their own can be outside.
        below = root is not None and f"{root.rstrip('/')}/".startswith(inside)
        statement = "SELECT name, location FROM partitions WHERE set_id = :set_id"
        if below:
            statement += " AND location IS NOT NULL"
        rows = self._connection.execute(text(statement), {"set_id": set_id})
        located = (read_location(root, row.name, row.location) for row in rows)
        return [each for each in located if each is not None and not each.startswith(inside)]

    def replace_columns(self, table_id: int, columns: Sequence[MetastoreColumn]) -> None:
        """Store these columns in every partition's storage."""
        found = self._set(table_id)
        if found is None:
            return
        set_id = found[0]
        known: dict[str, int] = {}
        rows = self._connection.execute(
            select(PartitionStorageRow.id, PartitionStorageRow.document).where(PartitionStorageRow.set_id == set_id)
        ).all()
        for row in rows:
            storage = partition_from(row.document).storage
            assert storage is not None
            changed = self._storage_id(
                set_id, dataclasses.replace(storage, columns=tuple(columns), has_columns=True), known
            )
            if changed != row.id:
                parameters = {"set_id": set_id, "old": row.id, "new": changed}
                self._connection.execute(text(_SHARE), parameters)
                self._connection.execute(delete(PartitionStorageRow).where(PartitionStorageRow.id == row.id))

    def retype_keys(self, table_id: int, keys: Sequence[MetastoreColumn]) -> None:
        """Store new search forms of every partition's values, after its keys got other types."""
        found = self._set(table_id)
        if found is None:
            return
        columns = [f"key_{number}" for number in range(KEY_COLUMNS)] + ["more_keys"]
        statement = (
            update(PartitionRow.__table__)  # type: ignore[arg-type]
            .where(PartitionRow.id == bindparam("row_id"))
            .values({column: bindparam(f"new_{column}") for column in columns})
        )
        part = (
            select(PartitionRow.id, PartitionRow.name, PartitionRow.value_list)
            .where(PartitionRow.set_id == found[0], PartitionRow.id > bindparam("last"))
            .order_by(PartitionRow.id)
            .limit(ROWS_PURGED)
        )
        last = -1
        while rows := self._connection.execute(part, {"last": last}).all():
            last = rows[-1].id
            changes = []
            for number, name, value_list in rows:
                values = name_values(name) if value_list is None else json.loads(value_list)
                forms = key_forms(keys, values)
                changes.append({"row_id": number, **{f"new_{column}": forms[column] for column in columns}})
            self._connection.execute(statement, changes)

    def move_location(self, table_id: int, old_prefix: str, new_prefix: str) -> None:
        """Replace the beginning of every partition's location, after the table's directory was renamed."""
        found = self._set(table_id)
        if found is None:
            return
        set_id, root = found
        if root is not None:
            moved_root = moved_text(root, old_prefix, new_prefix)
            if moved_root != root:
                self._connection.execute(
                    update(PartitionSetRow)
                    .where(PartitionSetRow.id == set_id)
                    .values(location=moved_root, place=indexed_place(moved_root))
                )
        rows = self._connection.execute(
            text("SELECT id, location FROM partitions WHERE set_id = :set_id AND location IS NOT NULL"),
            {"set_id": set_id},
        ).all()
        located = (
            (row.id, row.location, moved_text(row.location, old_prefix, new_prefix))
            for row in rows
            if is_elsewhere(row.location)
        )
        moved = [
            {"id": number, "location": new, "place": indexed_place(new)} for number, old, new in located if new != old
        ]
        if moved:
            statement = "UPDATE partitions SET location = :location, place = :place WHERE id = :id"
            self._connection.execute(text(statement), moved)

    def mark(self, table_id: int, name: str, event_type: int) -> None:
        """Record that an event happened to the partition of this name, whether it exists or not."""
        self._connection.execute(
            insert_unless_taken(self._connection, PartitionMarkRow, PartitionMarkRow.name).values(
                table_id=table_id, name=name, event_type=event_type
            )
        )

    def is_marked(self, table_id: int, name: str, event_type: int) -> bool:
        """Return whether the event was recorded for the partition."""
        statement = select(PartitionMarkRow.name).where(
            PartitionMarkRow.table_id == table_id,
            PartitionMarkRow.name == name,
            PartitionMarkRow.event_type == event_type,
        )
        return self._connection.execute(statement).first() is not None

    def purge(self, limit: int = ROWS_PURGED) -> int:
        """Remove up to `limit` partitions of tables that were dropped and cannot be put back; 0 when none is left."""
        dropped = self._connection.scalars(
            select(PartitionSetRow.id)
            .where(PartitionSetRow.table_id.is_(None), PartitionSetRow.dropped_id.is_(None))
            .order_by(PartitionSetRow.id)
            .limit(1)
            .with_for_update(skip_locked=True)
        ).first()
        if dropped is None:
            return 0
        removed = self._connection.execute(
            text(
                "DELETE FROM partitions WHERE id IN "
                "(SELECT id FROM partitions WHERE set_id = :set_id ORDER BY name LIMIT :limit)"
            ),
            {"set_id": dropped, "limit": limit},
        ).rowcount
        if removed < limit:
            self._connection.execute(delete(PartitionStorageRow).where(PartitionStorageRow.set_id == dropped))
            self._connection.execute(delete(PartitionSetRow).where(PartitionSetRow.id == dropped))
        # Removing a set without partitions counts as work, too: another set may follow.
        return max(removed, 1)

    def _set(self, table_id: int) -> tuple[int, str | None] | None:
        row = self._connection.execute(_SET, {"table_id": table_id}).one_or_none()
        return None if row is None else (row.id, row.location)

    def _new_set(self, table_id: int, location: str | None) -> tuple[int, str | None]:
        statement = insert_unless_taken(self._connection, PartitionSetRow, PartitionSetRow.id)
        set_id: int | None = self._connection.execute(
            statement.values(table_id=table_id, location=location, place=indexed_place(location))
        ).scalar_one_or_none()
        # A transaction that does not hold the table's row may have inserted it first.
        return (
            (set_id, location) if set_id is not None else self._connection.execute(_SET, {"table_id": table_id}).one()
        )

    def _new_rows(self, table_id: int, partitions: Sequence[tuple[str, MetastorePartition]]) -> list[dict[str, Any]]:
        """Return the rows of partitions; storage descriptors that are not stored yet are stored."""
        if not partitions:
            return []
        document = self._connection.execute(select(TableRow.document).where(TableRow.id == table_id)).scalar_one()
        table = table_from("", "", "", "", document)
        set_id, root = self._set(table_id) or self._new_set(table_id, table.location)
        known: dict[str, int] = {}
        last: tuple[StorageDescriptor | None, int | None] = (None, None)
        rows = []
        for name, partition in partitions:
            storage = None if partition.storage is None else with_location(partition.storage, None)
            # Nearly always a partition's storage equals that of the one before it; comparing is cheaper than
            # serializing.
            if storage != last[0]:
                last = (storage, self._storage_id(set_id, storage, known))
            rows.append(row_of(set_id, table.partition_keys, root, name, partition, last[1]))
        return rows

    def _rows(
        self, columns: str, set_id: int, names: Collection[str] | None, where: PartitionFilter, limit: int | None
    ) -> list[StoredFields]:
        """Select columns of the partitions of these names that match a filter, in the order of names."""
        condition = FilterSql(where, self._connection.dialect.name)
        parameters: dict[str, Any] = {"set_id": set_id, **condition.parameters}
        if names is not None:
            parameters["names"] = self._list(names)
        if limit is not None:
            parameters["limit"] = limit
        chosen = condition.condition + (f" AND name {self._among('names')}" if names is not None else "")
        order = "ORDER BY name" + (" LIMIT :limit" if limit is not None else "")
        whole = f"SELECT {columns} FROM partitions WHERE set_id = :set_id AND {chosen} "
        if self._postgresql or where == EVERYTHING:
            return self._fetched(whole + order, parameters, streamed=names is None and limit is None)
        # For the order SQLite would scan all names, whatever the filter. A filter that selects many rows finds its few
        # in the first batch; for any other the order is disabled on the index of names.
        if limit is not None:
            first = f"(SELECT * FROM partitions WHERE set_id = :set_id ORDER BY name LIMIT {ROWS_TRIED})"
            tried = self._fetched(f"SELECT {columns} FROM {first} WHERE {chosen} {order}", parameters)
            if len(tried) == limit:
                return tried
        return self._fetched(whole + order.replace("BY name", "BY +name"), parameters)

    def _fetched(self, statement: str, parameters: dict[str, Any], *, streamed: bool = False) -> list[StoredFields]:
        rows: list[StoredFields] = []
        for part in self._parts(statement, parameters, streamed=streamed):
            # A plain tuple takes half of the memory of SQLAlchemy's row.
            rows.extend(map(tuple, part))
        return rows

    def _parts(self, statement: str, parameters: dict[str, Any], *, streamed: bool) -> Iterator[Sequence[StoredFields]]:
        options = {"stream_results": True, "max_row_buffer": ROWS_FETCHED} if streamed and self._postgresql else {}
        with self._connection.execute(text(statement), parameters, execution_options=options) as result:
            cursor = result.cursor
            if self._postgresql or cursor is None:
                yield from result.partitions(ROWS_FETCHED)
                return
            # The driver's tuples are used as they are: SQLAlchemy's rows take twice the time.
            while part := cursor.fetchmany(ROWS_FETCHED):
                yield part

    def _among(self, parameter: str) -> str:
        # One parameter for a list of any length.
        return f"= ANY (:{parameter})" if self._postgresql else f"IN (SELECT value FROM json_each(:{parameter}))"

    def _list(self, values: Collection[str]) -> Any:
        return list(values) if self._postgresql else json.dumps(list(values))

    def _storages(self, rows: Sequence[StoredFields]) -> dict[int, StorageDescriptor]:
        """Return the storage descriptors that rows with STORED_COLUMNS refer to, by id."""
        wanted = sorted({row[1] for row in rows if row[1] is not None})
        if not wanted:
            return {}
        among = "= ANY (:ids)" if self._postgresql else "IN (SELECT value FROM json_each(:ids))"
        ids: Any = wanted if self._postgresql else json.dumps(wanted)
        statement = text(f"SELECT id, document FROM partition_storages WHERE id {among}")
        found: dict[int, StorageDescriptor] = {}
        for row in self._connection.execute(statement, {"ids": ids}):
            storage = partition_from(row.document).storage
            assert storage is not None
            found[row.id] = storage
        return found

    def _storage_id(self, set_id: int, storage: StorageDescriptor | None, known: dict[str, int]) -> int | None:
        if storage is None:
            return None
        document = partition_document(MetastorePartition(values=(), storage=storage))
        if document not in known:
            digest = hashlib.sha256(document.encode()).hexdigest()
            find = select(PartitionStorageRow.id).where(
                PartitionStorageRow.set_id == set_id, PartitionStorageRow.digest == digest
            )
            found = self._connection.execute(find).scalar_one_or_none()
            if found is None:
                found = self._connection.execute(
                    insert(PartitionStorageRow)
                    .values(set_id=set_id, digest=digest, document=document)
                    .returning(PartitionStorageRow.id)
                ).scalar_one()
            known[document] = found
        return known[document]
