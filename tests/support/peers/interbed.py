"""interbed with the methods of the peers, so that tests can compare them.

Rows are JSON (`tests.support.peers.json`) and pass through the public API and Arrow.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import interbed
from interbed.storage.base.types.data_type import DataField, field_from_json, type_to_json
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.table.table import Table
from tests.support.peers.java import PeerRows, Row
from tests.support.peers.json import PeerType, TypeJson, parse_type, rows_to_table, table_to_rows

KINDS = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}
KIND_COLUMN = "_row_kind"


@dataclass(frozen=True, slots=True)
class InterbedTable:
    """Table `database.table` of a warehouse: a directory, or a URI with options. Every call loads it again."""

    warehouse: str
    name: str
    options: Mapping[str, str] = field(default_factory=dict, kw_only=True)

    def _catalog(self) -> interbed.Catalog:
        warehouse = self.warehouse if "://" in self.warehouse else f"file:{self.warehouse}"
        return interbed.load_catalog("test", warehouse=warehouse, **self.options)

    def load(self) -> Table:
        """Load the table from its catalog."""
        with self._catalog() as catalog:
            return catalog.get_table(self.name)

    def create(
        self,
        columns: Sequence[tuple[str, TypeJson]],
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Create the table, and its database if it is missing."""
        fields = fields_of(columns)
        with self._catalog() as catalog:
            catalog.create_database(self.name.split(".")[0], ignore_if_exists=True)
            catalog.create_table(
                self.name,
                Schema(
                    fields=fields,
                    primary_keys=tuple(primary_keys),
                    partition_keys=tuple(partition_keys),
                    options=dict(options or {}),
                ),
            )

    def types(self) -> tuple[PeerType, ...]:
        """Return the types of the columns."""
        return _types(self.load(), None)

    def write(self, rows: Sequence[Row], *, kinds: Sequence[str] | None = None) -> int | None:
        """Write JSON rows in one commit and return the id of the snapshot; without `kinds` all rows are inserts."""
        table = self.load()
        data = rows_to_table(rows, table.schema.names, self.types())
        if kinds is None or set(kinds) == {"+I"}:
            return table.append(data)
        numbers = pa.array([KINDS[kind] for kind in kinds], pa.int8())
        return table.write_changes(data.append_column(KIND_COLUMN, numbers), kind_column=KIND_COLUMN)

    def compact(self, *, full: bool = True) -> Any:
        """Run a full compaction, or the compaction that the strategy finds due."""
        return self.load().compact(full=full)

    def changes(self, first: int, last: int) -> PeerRows:
        """Return the changes of the snapshots from `first` to `last`, both included."""
        table = self.load()
        found = table.changes(first, last).to_arrow()
        column: Any = found.column(KIND_COLUMN)
        kinds = [list(KINDS)[kind] for kind in column.to_pylist()]
        rows = found.drop_columns([KIND_COLUMN])
        types = _types(table, rows.column_names)
        return PeerRows(names=tuple(rows.column_names), types=types, rows=table_to_rows(rows, types), kinds=kinds)

    def last_snapshot_id(self) -> int:
        """Return the id of the newest snapshot, 0 when there is none."""
        return self.load().store.snapshots.latest_id() or 0

    def read(
        self,
        *,
        columns: Sequence[str] | None = None,
        filter: str | None = None,  # noqa: A002 - the word that readers of tables expect
        snapshot_id: int | None = None,
    ) -> PeerRows:
        """Return the rows of the table, or of a snapshot."""
        table = self.load()
        found = table.scan(columns=columns, filter=filter, snapshot_id=snapshot_id).to_arrow()
        then = table if snapshot_id is None else table.copy({"scan.snapshot-id": str(snapshot_id)})
        types = _types(then, found.column_names)
        rows = table_to_rows(found, types)
        return PeerRows(names=tuple(found.column_names), types=types, rows=rows, kinds=["+I"] * len(rows))


def interbed_table(warehouse: str | Path, name: str, options: Mapping[str, str] | None = None) -> InterbedTable:
    """Return the table `database.table` of a warehouse, without a look-up."""
    return InterbedTable(str(warehouse), name, options=options or {})


def fields_of(columns: Sequence[tuple[str, TypeJson]]) -> tuple[DataField, ...]:
    """Return the columns as fields of a schema."""
    return tuple(field_from_json(column) for column in _numbered(columns))


def _types(table: Table, names: Sequence[str] | None) -> tuple[PeerType, ...]:
    schema = table.schema
    return tuple(parse_type(type_to_json(schema.by_name[name].type)) for name in names or schema.names)


def _numbered(columns: Sequence[tuple[str, TypeJson]]) -> list[dict[str, Any]]:
    """Return the columns with field ids in the order of Java Paimon: a column before its children, a field of a row
    after them.
    """
    ids = itertools.count()

    def numbered(of: TypeJson) -> TypeJson:
        if isinstance(of, str):
            return of
        out: dict[str, Any] = {
            **of,
            **{child: numbered(of[child]) for child in ("element", "key", "value") if child in of},
        }
        if "fields" in of:
            inner = [(field["name"], numbered(field["type"]), next(ids)) for field in of["fields"]]
            out["fields"] = [{"id": number, "name": name, "type": type_of} for name, type_of, number in inner]
        return out

    return [{"id": next(ids), "name": name, "type": numbered(of)} for name, of in columns]
