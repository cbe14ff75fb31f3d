"""The system tables of a whole catalog, in its database `sys`: `catalog.get_table("sys.tables").scan().to_arrow()`.

`sys.tables`, `sys.partitions`, `sys.all_table_options` and `sys.catalog_options` have Paimon's names and columns
(documentation: concepts/system-tables, global system tables). `sys.table_health` is interbed's own. Secret values of
options are masked.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from interbed.catalog.client.errors import (
    UNREADABLE,
    DatabaseNotFoundError,
    NotAnInterbedTableError,
    TableNotFoundError,
)
from interbed.catalog.client.identifier import SYSTEM_DATABASE, Identifier
from interbed.catalog.client.options import CatalogOptions
from interbed.catalog.client.partition import Partition, epoch_millis, partition_name
from interbed.catalog.client.table_parts import as_format_table, as_object_table
from interbed.package_tables import PACKAGE_TABLES
from interbed.storage.base.errors import StorageAccessError
from interbed.storage.base.shown_text import masked
from interbed.storage.meta.options.core import PATH
from interbed.storage.meta.schema.manager import SchemaOutline
from interbed.storage.views.system.rows_table import Row, RowsTable, bigint, integer, text

if TYPE_CHECKING:
    from interbed.storage.table.table import Table

_log = logging.getLogger(__name__)

ALL_TABLES = "tables"
ALL_PARTITIONS = "partitions"
ALL_TABLE_OPTIONS = "all_table_options"
CATALOG_OPTIONS = "catalog_options"
TABLE_HEALTH = "table_health"

_TABLE_TYPE = "type"
_OWNER, _CREATED_AT, _CREATED_BY, _UPDATED_AT, _UPDATED_BY = "owner", "createdAt", "createdBy", "updatedAt", "updatedBy"
_NOTHING_KNOWN: Row = (None, None, None, None)
_FILE_FIGURES = frozenset({"file_size_in_bytes", "file_count", "last_file_creation_time"})


class ShownCatalog(Protocol):
    """The methods of interbed.catalog.client.api that these tables need."""

    name: str
    options: CatalogOptions

    @property
    def warehouse(self) -> str:
        """The root directory of databases."""
        ...

    @property
    def described(self) -> str:
        """The name of the catalog in messages."""
        ...

    def list_databases(self) -> list[str]:
        """Return the names of the databases."""
        ...

    def list_tables(self, database: str) -> list[str]:
        """Return the names of the tables of a database."""
        ...

    def get_table(self, identifier: str | Identifier) -> "Table":
        """Return a table by its name."""
        ...

    def table_outline(self, identifier: str | Identifier) -> SchemaOutline:
        """Return the readable parts of a table's schema."""
        ...

    def list_partitions(self, identifier: str | Identifier) -> list[Partition]:
        """Return the partitions of a table with their figures."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalTableKind:
    """One kind of system table of catalogs: its columns, and a function that makes its rows for the wanted columns."""

    columns: "tuple[pa.Field[Any], ...]"
    rows: Callable[[ShownCatalog, Collection[str]], Sequence[Row]]


@dataclass(frozen=True)
class GlobalTable(RowsTable):
    """One system table of a catalog; read only. `kind` is one of GLOBAL_TABLES, or of PACKAGE_TABLES."""

    name: str
    catalog: ShownCatalog
    kind: str

    @staticmethod
    def of(catalog: ShownCatalog, name: str) -> "GlobalTable":
        """Return the system table of that name, ignoring case; raise TableNotFoundError naming the existing ones."""
        names = global_tables(catalog)
        if name.lower() not in names:
            raise TableNotFoundError(
                f"There is no table '{SYSTEM_DATABASE}.{name}' in {catalog.described}; in {SYSTEM_DATABASE} "
                f"there are {', '.join(names)}."
            )
        return GlobalTable(f"{SYSTEM_DATABASE}.{name.lower()}", catalog, name.lower())

    @property
    def arrow_schema(self) -> pa.Schema:
        return pa.schema(_kind_named(self.kind).columns)

    def rows(self, wanted: Collection[str]) -> Sequence[Row]:
        return _kind_named(self.kind).rows(self.catalog, wanted)

    def copy(self, dynamic_options: Mapping[str, object]) -> "GlobalTable":
        """Return the same table; no option changes its rows."""
        return self


def global_tables(catalog: ShownCatalog) -> list[str]:
    """Return the names of the system tables of the catalog, sorted."""
    names = (*GLOBAL_TABLES, *PACKAGE_TABLES)
    return sorted(name for name in names if name != CATALOG_OPTIONS or catalog.options.shows_options)


def _kind_named(name: str) -> GlobalTableKind:
    own = GLOBAL_TABLES.get(name)
    if own is not None:
        return own
    module, _, attribute = PACKAGE_TABLES[name].partition(":")
    kind: GlobalTableKind = getattr(import_module(module), attribute)
    return kind


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShownTable:
    """A table with its options, including the path; `table` is None if this version can't read it."""

    identifier: Identifier
    options: Mapping[str, str]
    partitioned: bool
    keyed: bool
    table: "Table | None"


def _all_tables(catalog: ShownCatalog) -> Iterator[_ShownTable]:
    for database in sorted(catalog.list_databases()):
        if database == SYSTEM_DATABASE:
            continue
        try:
            names = catalog.list_tables(database)
        except DatabaseNotFoundError:
            # It was dropped meanwhile.
            continue
        for name in names:
            try:
                yield _shown(catalog, Identifier(database, name))
            except (TableNotFoundError, DatabaseNotFoundError):
                continue
            except NotAnInterbedTableError as error:
                _log.warning("The table '%s.%s' can't be shown: %s", database, name, error)
            except StorageAccessError as error:
                _log.warning("The table '%s.%s' can't be shown: %s", database, name, error)


def _shown(catalog: ShownCatalog, identifier: Identifier) -> _ShownTable:
    try:
        table = catalog.get_table(identifier)
    except UNREADABLE as error:
        _log.warning("The table '%s' can't be read, and is shown without figures: %s", identifier, error)
        outline = catalog.table_outline(identifier)
        return _ShownTable(
            identifier=identifier,
            options={**outline.options, PATH: outline.location},
            partitioned=bool(outline.partition_keys),
            keyed=bool(outline.primary_keys),
            table=None,
        )
    return _ShownTable(
        identifier=identifier,
        options={**table.schema.options, PATH: table.location},
        partitioned=bool(table.partition_keys),
        keyed=bool(table.primary_keys),
        table=None if as_format_table(table) is not None or as_object_table(table) is not None else table,
    )


def _millis(value: str | None) -> int | None:
    return int(value) if value is not None and value.isdigit() else None


def _figures_of(table: "Table", *, files: bool) -> Row:
    """Return records and, if wanted, bytes, files and the time of the newest file; null for unknown figures."""
    latest = table.latest_snapshot()
    if latest is None or not files:
        return (None if latest is None else latest.total_record_count, None, None, None)
    # Only these figures need the manifests of every table.
    sums = table.access.partition_sums().values()
    created = [epoch_millis(s.created_millis) for s in sums]
    newest = max(created, default=None)
    return (latest.total_record_count, sum(s.bytes for s in sums), sum(s.files for s in sums), newest)


def _known_figures(shown: _ShownTable, *, files: bool) -> Row:
    if shown.table is None:
        return _NOTHING_KNOWN
    try:
        return _figures_of(shown.table, files=files)
    except (*UNREADABLE, StorageAccessError) as error:
        _log.warning("The figures of the table '%s' can't be shown: %s", shown.identifier, error)
        return _NOTHING_KNOWN


def _tables(catalog: ShownCatalog, wanted: Collection[str]) -> Sequence[Row]:
    files = not _FILE_FIGURES.isdisjoint(wanted)
    return [
        (
            shown.identifier.database,
            shown.identifier.table,
            shown.options.get(_TABLE_TYPE, "table"),
            shown.partitioned,
            shown.keyed,
            shown.options.get(_OWNER),
            _millis(shown.options.get(_CREATED_AT)),
            shown.options.get(_CREATED_BY),
            _millis(shown.options.get(_UPDATED_AT)),
            shown.options.get(_UPDATED_BY),
            *_known_figures(shown, files=files),
        )
        for shown in _all_tables(catalog)
    ]


def _partitions(catalog: ShownCatalog, _: Collection[str]) -> Sequence[Row]:
    return [
        (
            shown.identifier.database,
            shown.identifier.table,
            partition_name(partition.spec),
            partition.record_count,
            partition.file_size_in_bytes,
            partition.file_count,
            partition.last_file_creation_time,
            partition.done,
        )
        for shown in _all_tables(catalog)
        if shown.partitioned and shown.table is not None
        for partition in _known_partitions(catalog, shown.identifier)
    ]


def _known_partitions(catalog: ShownCatalog, identifier: Identifier) -> Sequence[Partition]:
    try:
        return catalog.list_partitions(identifier)
    except (TableNotFoundError, DatabaseNotFoundError):
        return []
    except (*UNREADABLE, StorageAccessError) as error:
        _log.warning("The partitions of the table '%s' can't be shown: %s", identifier, error)
        return []


def _all_table_options(catalog: ShownCatalog, _: Collection[str]) -> Sequence[Row]:
    return [
        (shown.identifier.database, shown.identifier.table, key, masked(key, value))
        for shown in _all_tables(catalog)
        for key, value in sorted(shown.options.items())
    ]


def _table_health(catalog: ShownCatalog, wanted: Collection[str]) -> Sequence[Row]:
    looks = not _HEALTH_FIGURES.isdisjoint(wanted)
    return [
        (shown.identifier.database, shown.identifier.table, *(_health_of(shown) if looks else _HEALTH_UNKNOWN))
        for shown in _all_tables(catalog)
    ]


def _health_of(shown: _ShownTable) -> Row:
    """Return the figures of a table's health; nulls for a table that can't be read."""
    if shown.table is None:
        return _HEALTH_UNKNOWN
    try:
        found = shown.table.maintenance.health()
    except (*UNREADABLE, StorageAccessError) as error:
        _log.warning("The health of the table '%s' can't be shown: %s", shown.identifier, error)
        return _HEALTH_UNKNOWN
    reasons = "; ".join(map(str, found.reasons))
    return (found.score, reasons, *(getattr(found, figure) for figure in _HEALTH_COLUMNS.values()))


def _catalog_options(catalog: ShownCatalog, _: Collection[str]) -> Sequence[Row]:
    return [(key, masked(key, value)) for key, value in sorted(catalog.options.raw.items())]


def _texts(*names: str) -> "tuple[pa.Field[Any], ...]":
    return tuple(text(name, nullable=True) for name in names)


def _figures(*names: str) -> "tuple[pa.Field[Any], ...]":
    return tuple(bigint(name, nullable=True) for name in names)


_FIGURES = _figures("record_count", "file_size_in_bytes", "file_count", "last_file_creation_time")

_HEALTH_COLUMNS: Mapping[str, str] = {
    "read_amplification": "read_amplification",
    "runs_max": "runs_max",
    "files": "files",
    "file_size_in_bytes": "bytes",
    "record_count": "rows",
    "level0_files": "level0_files",
    "small_files": "small_files",
    "delete_ratio": "delete_ratio",
    "vector_files": "vector_files",
    "duplicate_ratio": "duplicate_ratio",
    "pending_bytes": "pending_bytes",
    "manifests": "manifests",
    "snapshots": "snapshots",
    "snapshots_due": "snapshots_due",
    "snapshot_id": "snapshot_id",
    "last_commit": "newest_millis",
    "last_full_compaction": "last_full_millis",
}
"""The columns of `sys.table_health` after score and reasons, each with its figure of TableHealth."""
_RATIOS = frozenset({"read_amplification", "delete_ratio", "duplicate_ratio"})
_HEALTH_FIGURES = frozenset({"score", "reasons", *_HEALTH_COLUMNS})
_HEALTH_UNKNOWN: Row = (None,) * len(_HEALTH_FIGURES)

GLOBAL_TABLES: Mapping[str, GlobalTableKind] = {
    ALL_TABLES: GlobalTableKind(
        columns=(
            *_texts("database_name", "table_name", "table_type"),
            pa.field("partitioned", pa.bool_()),
            pa.field("primary_key", pa.bool_()),
            *_texts(_OWNER),
            *_figures("created_at"),
            *_texts("created_by"),
            *_figures("updated_at"),
            *_texts("updated_by"),
            *_FIGURES,
        ),
        rows=_tables,
    ),
    ALL_PARTITIONS: GlobalTableKind(
        columns=(*_texts("database_name", "table_name", "partition_name"), *_FIGURES, pa.field("done", pa.bool_())),
        rows=_partitions,
    ),
    ALL_TABLE_OPTIONS: GlobalTableKind(
        columns=_texts("database_name", "table_name", "key", "value"), rows=_all_table_options
    ),
    TABLE_HEALTH: GlobalTableKind(
        columns=(
            *_texts("database_name", "table_name"),
            integer("score", nullable=True),
            *_texts("reasons"),
            *(
                pa.field(name, pa.float64()) if name in _RATIOS else bigint(name, nullable=True)
                for name in _HEALTH_COLUMNS
            ),
        ),
        rows=_table_health,
    ),
    CATALOG_OPTIONS: GlobalTableKind(columns=(text("key"), text("value")), rows=_catalog_options),
}
"""All kinds of system tables, by name."""
