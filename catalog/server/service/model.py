"""Objects of a metastore as plain immutable values: catalogs, databases, tables, partitions, functions, constraints,
and dropped objects with what is needed to put them back.

The vocabulary and the fields are Hive's (hive_metastore.thrift), but nothing here knows Thrift. Times are seconds since
the epoch. Names are held in lower case; code that builds a value from outside input lowers them first (see names.py).

The states of a dropped object, in the order of its life: ANNOUNCED (a drop is about to move the directory; the object
is still registered), DROPPED, RESTORING (it is being put back; its directory may be at the target already) and PURGING
(its directory is being deleted). Every change of state is one transaction. A process that works on an entry holds its
row in the transaction that moves the directory.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import Any, Protocol

DEFAULT_CATALOG = "hive"
DEFAULT_DATABASE = "default"

NAMES_MAX = 2**31 - 1
"""The limit of a list of names without one."""

MANAGED_TABLE = "MANAGED_TABLE"
EXTERNAL_TABLE = "EXTERNAL_TABLE"
VIRTUAL_VIEW = "VIRTUAL_VIEW"
MATERIALIZED_VIEW = "MATERIALIZED_VIEW"

CREATION_METADATA = "creationMetadata"
"""The extra field of a materialized view's table that records the tables and snapshots it was made of."""

ICEBERG_TYPE = "table_type"
ICEBERG_METADATA = "metadata_location"
ICEBERG_TABLE = "ICEBERG"
ICEBERG_VIEW = "ICEBERG-VIEW"
"""Parameters of the tables and views of Iceberg's catalogs, and values of the first."""

PAIMON_FORMATS = (
    "org.apache.paimon.hive.mapred.PaimonInputFormat",
    "org.apache.paimon.hive.mapred.PaimonOutputFormat",
)
"""Input and output format of Paimon's tables."""

PARAMETER_EXTERNAL = "EXTERNAL"
PARAMETER_DDL_TIME = "transient_lastDdlTime"
PARAMETER_EXTERNAL_PURGE = "external.table.purge"

_FILE_RESOURCE = 2
_PAIMON_FUNCTION = "paimon-function:"


class TableKind(IntEnum):
    """The kind of a table by the format that its entry declares. The numbers are those in the database."""

    HIVE = 1
    """A table of any other format."""
    VIEW = 2
    """A view, except those of Iceberg."""
    ICEBERG = 3
    ICEBERG_VIEW = 4
    PAIMON = 5
    PAIMON_AND_ICEBERG = 6
    """A table with the formats of Paimon and the parameters of Iceberg."""
    FORMAT = 7
    """A format table that a client of Paimon's has created: plain files, with the SerDe of Hive for them."""
    OBJECT = 8
    """An object table: Paimon's formats, and the files of its directory as rows."""


FORMAT_TABLE = "format-table"
OBJECT_TABLE = "object-table"
"""The parameter `type` of format tables and object tables."""

ICEBERG_KINDS = frozenset((TableKind.ICEBERG, TableKind.PAIMON_AND_ICEBERG))
PAIMON_KINDS = frozenset((TableKind.PAIMON, TableKind.PAIMON_AND_ICEBERG))
SNAPSHOT_KINDS = ICEBERG_KINDS | PAIMON_KINDS
"""Kinds of tables whose snapshots name the files in their directories."""
VIEW_KINDS = frozenset((TableKind.VIEW, TableKind.ICEBERG_VIEW))


class PrincipalType(IntEnum):
    """The kind of an owner."""

    USER = 1
    ROLE = 2
    GROUP = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreCatalog:
    """A space of databases. `hive` always exists."""

    name: str
    description: str | None = None
    location: str
    create_time: int = 0
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreDatabase:
    """A namespace of tables; `location` holds the directories of its managed tables."""

    catalog: str = DEFAULT_CATALOG
    name: str
    description: str | None = None
    location: str | None = None
    managed_location: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    owner_name: str | None = None
    owner_type: int | None = None
    create_time: int = 0
    made: tuple[str, ...] = field(default=(), compare=False)
    """The directories that the server made for the database: their places as text (directories/locations.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreColumn:
    """A column or a partition key; `type` is Hive's type text, for instance `array<struct<a:int>>`."""

    name: str
    type: str | None
    comment: str | None = None


SHARED_LENGTH_MAX = 200
"""Letters of a column that is kept for other tables."""


def column_of(name: str, column_type: str | None, comment: str | None) -> MetastoreColumn:
    """Return a column. Short ones are shared, since each request about a table makes all of its columns."""
    if len(name) + len(column_type or "") + len(comment or "") > SHARED_LENGTH_MAX:
        return MetastoreColumn(name=name, type=column_type, comment=comment)
    return _shared_column(name, column_type, comment)


@lru_cache(maxsize=4096)
def _shared_column(name: str, column_type: str | None, comment: str | None) -> MetastoreColumn:
    return MetastoreColumn(name=name, type=column_type, comment=comment)


@dataclass(frozen=True, slots=True, kw_only=True)
class SerDe:
    """How rows are read from and written to files."""

    name: str | None = None
    library: str | None = None
    parameters: Mapping[str, str] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """Columns whose frequent values have directories of their own."""

    columns: tuple[str, ...] = ()
    values: tuple[tuple[str, ...], ...] = ()
    locations: tuple[tuple[tuple[str, ...], str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageDescriptor:
    """Columns, location and file format of a table or a partition."""

    columns: tuple[MetastoreColumn, ...] = ()
    location: str | None = None
    input_format: str | None = None
    output_format: str | None = None
    compressed: bool = False
    bucket_count: int = 0
    serde: SerDe | None = None
    bucket_columns: tuple[str, ...] = ()
    sort_columns: tuple[tuple[str, int], ...] = ()
    parameters: Mapping[str, str] | None = None
    skew: Skew | None = None
    stored_as_sub_directories: bool | None = None
    has_columns: bool = True
    """False if a client left out the list of columns, as is allowed for a partition: it is returned without
    one, too.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreTable:
    """A table or a view. A view has no storage location; some clients send no storage descriptor for it at all."""

    catalog: str = DEFAULT_CATALOG
    database: str
    name: str
    table_type: str = MANAGED_TABLE
    owner: str | None = None
    create_time: int = 0
    last_access_time: int = 0
    retention: int = 0
    storage: StorageDescriptor | None = None
    partition_keys: tuple[MetastoreColumn, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    view_original_text: str | None = None
    view_expanded_text: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    number: int | None = field(default=None, compare=False)
    """A number that distinguishes the table from an earlier one of the same name: assigned at creation, kept by every
    change.
    """

    @property
    def is_view(self) -> bool:
        """Whether the table holds no data of its own; a materialized view does."""
        return self.table_type == VIRTUAL_VIEW

    @property
    def kind(self) -> TableKind:
        """The kind of the table."""
        parameters, storage = self.parameters, self.storage
        marked = parameters.get(ICEBERG_TYPE, "").upper() if parameters.get(ICEBERG_METADATA) else ""
        if self.is_view:
            return TableKind.ICEBERG_VIEW if marked == ICEBERG_VIEW else TableKind.VIEW
        is_paimon = storage is not None and (storage.input_format, storage.output_format) == PAIMON_FORMATS
        if marked == ICEBERG_TABLE:
            return TableKind.PAIMON_AND_ICEBERG if is_paimon else TableKind.ICEBERG
        declared = parameters.get("type", "").lower()
        if is_paimon:
            return TableKind.OBJECT if declared == OBJECT_TABLE else TableKind.PAIMON
        return TableKind.FORMAT if declared == FORMAT_TABLE else TableKind.HIVE

    @property
    def is_external(self) -> bool:
        """Whether the data is owned outside of the metastore and outlives the table."""
        return self.table_type == EXTERNAL_TABLE or self.parameters.get(PARAMETER_EXTERNAL, "").upper() == "TRUE"

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns and of the partition keys, in lower case."""
        columns = () if self.storage is None else self.storage.columns
        return tuple(each.name.strip().lower() for each in (*columns, *self.partition_keys))

    @property
    def location(self) -> str | None:
        """The location of the table's data, or None for a view."""
        return self.storage.location if self.storage is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMeta:
    """One table's entry in a listing."""

    database: str
    name: str
    table_type: str
    comment: str | None
    owner: str | None = None
    owner_type: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTable:
    """One table on a page of a database's tables. `owner` is the text of a grantee: `user:ann`."""

    name: str
    kind: TableKind
    owner: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastorePartition:
    """One partition: `values` in the order of the table's partition keys."""

    values: tuple[str, ...]
    create_time: int = 0
    last_access_time: int = 0
    storage: StorageDescriptor | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A user-defined function; resources are (type, uri) with 1 jar, 2 file, 3 archive."""

    catalog: str = DEFAULT_CATALOG
    database: str
    name: str
    class_name: str | None = None
    owner_name: str | None = None
    owner_type: int | None = None
    create_time: int = 0
    function_type: int = 1
    resources: tuple[tuple[int, str | None], ...] = ()

    @property
    def paimon_definition(self) -> str | None:
        """The JSON of a function of Paimon, which is one more resource; None for a function of Hive."""
        found = (uri for _, uri in self.resources if uri is not None and uri.startswith(_PAIMON_FUNCTION))
        return next((uri.removeprefix(_PAIMON_FUNCTION) for uri in found), None)

    def with_paimon_definition(self, definition: str) -> "Function":
        """Return the function with the JSON of a function of Paimon as its only resource."""
        return replace(self, resources=((_FILE_RESOURCE, f"{_PAIMON_FUNCTION}{definition}"),))


class ConstraintKind(IntEnum):
    """The kind of a constraint. None is enforced: optimizers read them."""

    PRIMARY_KEY = 1
    FOREIGN_KEY = 2
    UNIQUE = 3
    NOT_NULL = 4
    DEFAULT = 5
    CHECK = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class QualifiedTableName:
    """The full name of a table."""

    catalog: str = DEFAULT_CATALOG
    database: str
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """An informational constraint of a table.

    `columns` are the table's, in the order of the key; a check of the whole table has none. A foreign key names the
    table, the columns (in the order of `columns`) and, if known, the key that it refers to. `expression` is a column's
    default value or the condition of a check.
    """

    catalog: str = DEFAULT_CATALOG
    database: str
    table: str
    name: str = ""
    kind: ConstraintKind
    columns: tuple[str, ...] = ()
    enabled: bool = False
    validated: bool = False
    relied: bool = False
    expression: str | None = None
    parent: QualifiedTableName | None = None
    parent_columns: tuple[str, ...] = ()
    parent_key: str | None = None
    update_rule: int = 0
    delete_rule: int = 0


class DroppedKind(StrEnum):
    """The kind of a dropped object."""

    TABLE = "table"
    VIEW = "view"
    DATABASE = "database"


class DroppedState(StrEnum):
    """The state of an entry."""

    ANNOUNCED = "announced"
    DROPPED = "dropped"
    RESTORING = "restoring"
    PURGING = "purging"


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedObject:
    """An entry. `name` is None for a database; `parent_id` is the entry of the database that a table was dropped with.

    `location` is the original location. `aside` is where the directory was moved; None if it was not moved, because
    the metastore does not own it. Times are seconds since the epoch.
    """

    id: int = 0
    parent_id: int | None = None
    catalog: str
    database: str
    name: str | None = None
    kind: DroppedKind
    state: DroppedState = DroppedState.DROPPED
    dropped_at: int
    expires_at: int
    dropped_by: str | None = None
    location: str | None = None
    aside: str | None = None
    target: str | None = None
    value: MetastoreTable | MetastoreDatabase | None = None

    @property
    def qualified(self) -> str:
        """The full name as commands take it."""
        own = self.database if self.name is None else f"{self.database}.{self.name}"
        return own if self.catalog == "hive" else f"{self.catalog}.{own}"

    def to_json(self) -> dict[str, Any]:
        """Return the entry as commands print it."""
        return {
            "id": self.id,
            "catalog": self.catalog,
            "database": self.database,
            "name": self.name,
            "kind": str(self.kind),
            "state": str(self.state),
            "dropped_at": self.dropped_at,
            "expires_at": self.expires_at,
            "dropped_by": self.dropped_by,
            "location": self.location,
            "present_location": self.aside,
            "with_database": self.parent_id,
        }


class DroppedObjects(Protocol):
    """Repository of dropped objects by id. An id is never used again."""

    def add(self, entry: DroppedObject) -> int:
        """Store an entry without its value and return its id."""
        ...

    def find(self, entry_id: int) -> DroppedObject | None: ...
    def lock(self, entry_id: int) -> DroppedObject | None:
        """Return the entry, locked against changes until the end of the transaction."""
        ...

    def select(
        self, catalog: str | None = None, database: str | None = None, name: str | None = None
    ) -> list[DroppedObject]:
        """Return the entries of these names (of all if None), the latest drop first."""
        ...

    def children(self, entry_id: int) -> list[DroppedObject]:
        """Return the entries of the tables that were dropped with a database, by name, locked as by `lock`."""
        ...

    def in_states(self, states: Collection[DroppedState]) -> list[int]:
        """Return the ids of the entries in one of these states, oldest first."""
        ...

    def expired(self, now: int, limit: int) -> list[int]:
        """Return the ids of up to `limit` entries that have expired or whose purge has begun."""
        ...

    def keep_table(self, entry_id: int, table_id: int, table: MetastoreTable) -> None:
        """Complete the entry of a table that is removed right after: take over its partitions, statistics,
        constraints, links and grants. The entry is DROPPED then.
        """
        ...

    def keep_database(self, entry_id: int, database: MetastoreDatabase, functions: Sequence[Function]) -> None:
        """Complete the entry of a database that is removed right after. The entry is DROPPED then."""
        ...

    def adopt(self, entry_id: int, parent_id: int) -> None:
        """Store the entry of the database that a table is dropped with."""
        ...

    def attach(self, entry_id: int, table_id: int) -> None:
        """Give a table that was put back its partitions, statistics, constraints, links and grants. Foreign keys
        whose other table no longer exists are left out, and grants to roles that no longer exist.
        """
        ...

    def attach_database(self, entry_id: int, database_id: int) -> None:
        """Give a database that was put back with its functions the grants on it and on them."""
        ...

    def functions(self, entry_id: int) -> list[Function]:
        """Return the functions of a dropped database."""
        ...

    def change(self, entry_id: int, state: DroppedState, target: str | None = None) -> None:
        """Store another state and target."""
        ...

    def remove(self, entry_id: int) -> None:
        """Remove the entry. Partitions that it still has are removed by the next purges of partitions."""
        ...
