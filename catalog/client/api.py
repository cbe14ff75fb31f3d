"""The Catalog: databases and tables by name, whatever keeps them.

Every implementation runs the same suite of behaviours (tests/catalog/test_catalog_behaviors.py). The methods bear
pypaimon's names and arguments, so that code written for it runs on interbed.
"""

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from interbed.catalog.client.errors import (
    UNREADABLE,
    DatabaseExistsError,
    DatabaseNotFoundError,
    TableExistsError,
    TableNotFoundError,
)
from interbed.catalog.client.identifier import SYSTEM_DATABASE, Identifier, TableName, check_not_system_database
from interbed.catalog.client.identifier import parse_table_name as parse_table_name
from interbed.catalog.client.options import UNNAMED, CatalogOptions
from interbed.catalog.client.staging import Fill, StagedTables, given_schema
from interbed.catalog.client.versions import VersionsByName
from interbed.catalog.client.views import Views
from interbed.storage.base.errors import InvalidInputError, InvalidOptionError, NotSupportedError, plain_errors
from interbed.storage.io.api import FileIO
from interbed.storage.meta.schema.table_schema import Schema, TableSchema
from interbed.storage.table.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from interbed.catalog.client.partition import PagedList, Partition, PartitionSpecs, PartitionStatistics
    from interbed.catalog.client.repair_report import RepairReport
    from interbed.iceberg.table import IcebergTable
    from interbed.storage.base.incoming import IncomingRows
    from interbed.storage.meta.schema.change import SchemaChange
    from interbed.storage.meta.schema.outline import SchemaOutline
    from interbed.storage.table.read_optimized import ReadOptimizedTable
    from interbed.storage.views.changes import ChangeView
    from interbed.storage.views.system.table import SystemTable


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A database: where its tables live by default, and its properties."""

    name: str
    location: str
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


class Catalog(StagedTables, Views, VersionsByName, ABC):
    """Databases and tables by name. Safe to share between threads; close it when done, or use it with `with`."""

    def __init__(self, name: str, options: CatalogOptions) -> None:
        self.name = name
        self.options = options
        self.instead_of_iceberg: str | None = None
        """What to tell whoever asks for a table of Iceberg's, where these are of no use; None to open them."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.warehouse!r})"

    @property
    def described(self) -> str:
        """The catalog in messages: by its name, or by its warehouse where it was opened without one."""
        return f"the warehouse {self.warehouse}" if self.name == UNNAMED else f"the catalog '{self.name}'"

    # -- what an implementation gives ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def warehouse(self) -> str:
        """The root directory of databases, as a path or URI."""

    @property
    @abstractmethod
    def file_io(self) -> FileIO:
        """Access to the warehouse."""

    @property
    def is_case_sensitive(self) -> bool:
        """Whether names that differ by case alone are two names; they are one in a Hive metastore."""
        return True

    @abstractmethod
    def list_databases(self) -> list[str]:
        """Names of all databases, sorted."""

    @abstractmethod
    def _get_database(self, name: str) -> Database: ...

    @abstractmethod
    def _create_database(self, name: str, properties: Mapping[str, str]) -> None: ...

    @abstractmethod
    def _drop_database(self, name: str, *, cascade: bool) -> None: ...

    @abstractmethod
    def _alter_database(
        self, name: str, set_properties: Mapping[str, str], remove_properties: Sequence[str]
    ) -> None: ...

    @abstractmethod
    def _list_tables(self, database: str) -> list[str]: ...

    @abstractmethod
    def _load_table(self, identifier: Identifier) -> Table: ...

    @abstractmethod
    def _location_of(self, identifier: Identifier) -> str: ...

    @abstractmethod
    def _create_table(
        self, identifier: Identifier, schema: TableSchema, path: str | None, fill: Fill | None = None
    ) -> None: ...

    @abstractmethod
    def _replace_table(self, identifier: Identifier, schema: TableSchema, fill: Fill) -> None: ...

    @abstractmethod
    def _new_location(self, identifier: Identifier, path: str | None) -> tuple[FileIO, str]: ...

    @abstractmethod
    def drop_table(self, identifier: "str | Identifier", ignore_if_not_exists: bool = False) -> None:
        """Drop a table and, unless it is external, its files; raises TableNotFoundError."""

    @abstractmethod
    def rename_table(
        self,
        source: "str | Identifier",
        target: "str | Identifier",
        ignore_if_not_exists: bool = False,
    ) -> None:
        """Give a table another name, perhaps in another database; raises TableNotFoundError, TableExistsError."""

    @abstractmethod
    def alter_table(
        self,
        identifier: "str | Identifier",
        changes: "Sequence[SchemaChange] | SchemaChange",
        ignore_if_not_exists: bool = False,
    ) -> None:
        """Make a new version of the table's schema; all changes or none. Raises TableNotFoundError."""

    # -- what only some keep ---------------------------------------------------------------------------------------

    def create_partitions(
        self,
        identifier: "str | Identifier",
        partitions: "PartitionSpecs",
        ignore_if_exists: bool = True,
    ) -> None:
        """Register partitions, which need hold nothing yet. Does nothing where no partitions are kept beside the files.

        They are kept by a Hive catalog, for tables with `metastore.partitioned-table`. Raises TableNotFoundError,
        InvalidInputError for a specification that is not complete, PartitionExistsError unless that is to be ignored.
        """
        from interbed.catalog.client.partition import partition_specs

        table = self.get_table(identifier)
        for spec in partition_specs(partitions):
            table.access.partition_of(spec)

    def alter_partitions(self, identifier: "str | Identifier", partitions: "Sequence[PartitionStatistics]") -> None:
        """Note how much registered partitions hold, such as `list_partitions` returns; those that are not are skipped.

        Does nothing where no partitions are kept beside the files. Raises TableNotFoundError.
        """
        self.get_table(identifier)

    def drop_partitions(self, identifier: "str | Identifier", partitions: "PartitionSpecs") -> None:
        """Delete the rows of partitions, as one commit, and what is registered of them; missing ones are no error.

        A specification may leave columns out and means all partitions that agree with it then. Raises
        TableNotFoundError, InvalidInputError for none at all or an unknown column, and as a commit does.
        """
        from interbed.catalog.client.partition import partition_specs

        specs = partition_specs(partitions)
        if not specs:
            raise InvalidInputError("Name at least one partition to drop; truncate the table to empty it.")
        table = self.get_table(identifier)
        table.new_batch_write_builder().new_commit().truncate_partitions(specs)

    def expire_partitions(
        self,
        identifier: "str | Identifier",
        *,
        expiration_time: timedelta | str | None = None,
        timestamp_formatter: str | None = None,
        timestamp_pattern: str | None = None,
        expire_strategy: str | None = None,
        max_expires: int | None = None,
        options: Mapping[str, str] | None = None,
        dry_run: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> list[dict[str, str]]:
        """Drop the partitions that are older than `expiration_time` (a timedelta, or text such as '30 d').

        They are returned. What is not given is as the options `partition.expiration-time`,
        `partition.timestamp-formatter`, `partition.timestamp-pattern`, `partition.expiration-strategy` and
        `partition.expiration-max-num` say, those of `options` before the table's. Raises InvalidOptionError without a
        time, and what drop_partitions raises.
        """
        from interbed.catalog.client.partition import partitions_of
        from interbed.storage.meta.options.partition_time import outdated

        given = {
            "partition.timestamp-formatter": timestamp_formatter,
            "partition.timestamp-pattern": timestamp_pattern,
            "partition.expiration-strategy": expire_strategy,
            "partition.expiration-max-num": max_expires,
        }
        table = self.get_table(identifier)
        if isinstance(expiration_time, timedelta):
            given["partition.expiration-time"] = f"{round(expiration_time.total_seconds() * 1000)} ms"
        else:
            given["partition.expiration-time"] = expiration_time
        chosen = {**(options or {}), **{key: str(value) for key, value in given.items() if value is not None}}
        bounds = table.copy(chosen).options
        if bounds.partition_expiration_millis is None:
            raise InvalidOptionError(
                f"Partitions of '{table.name}' have no bound: set 'partition.expiration-time', or give expiration_time."
            )
        with table.store.changing():
            found = partitions_of(table)
        old = outdated(
            [(each.spec, datetime.fromtimestamp(each.last_file_creation_time / 1000)) for each in found],
            datetime.fromtimestamp(clock() - bounds.partition_expiration_millis / 1000),
            strategy=bounds.partition_expiration_strategy,
            time=bounds.partition_time,
            most=bounds.partition_expiration_max_num,
        )
        if old and not dry_run:
            self.drop_partitions(identifier, old)
        return old

    def mark_partitions_done(
        self, identifier: "str | Identifier", partitions: "PartitionSpecs"
    ) -> list[dict[str, str]]:
        """Mark partitions as complete, by what `partition.mark-done-action` says; they are returned in full.

        Raises InvalidInputError, InvalidOptionError, NotSupportedError.
        """
        from interbed.catalog.client.partition import mark_done, partition_specs

        name = str(identifier)
        specs = partition_specs(partitions)
        return mark_done(lambda made: self.create_partitions(name, made), self.get_table(name), specs)

    def repair_catalog(self, *, dry_run: bool = False) -> "RepairReport":
        """Register what lies in the warehouse and bring what is registered up to date; `dry_run` only reports.

        Raises NotSupportedError where the files are the catalog.
        """
        raise self._no_repair()

    def repair_database(self, name: str, *, dry_run: bool = False) -> "RepairReport":
        """The same for one database, which need not be registered yet."""
        raise self._no_repair()

    def repair_table(self, identifier: "str | Identifier", *, dry_run: bool = False) -> "RepairReport":
        """The same for one table; raises TableNotFoundError when there are no files of it."""
        raise self._no_repair()

    def _no_repair(self) -> NotSupportedError:
        return NotSupportedError("In a file-system catalog the files are the catalog; there is nothing to repair.")

    def close(self) -> None:
        """Give back connections; the catalog is not used afterwards."""

    # -- what follows from it --------------------------------------------------------------------------------------

    def get_database(self, name: str) -> Database:
        """The database of that name; raises DatabaseNotFoundError. `sys` is that of the catalog's system tables."""
        if name == SYSTEM_DATABASE:
            return Database(name=SYSTEM_DATABASE, location=self.warehouse, comment="System tables of the catalog")
        return self._get_database(name)

    def create_database(
        self, name: str, ignore_if_exists: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        """Create a database; raises DatabaseExistsError unless that is to be ignored, and InvalidOptionError for
        properties that open a store and are secret.
        """
        check_not_system_database(name)
        _check_properties(properties or {})
        if ignore_if_exists and self.database_exists(name):
            return
        try:
            self._create_database(name, properties or {})
        except DatabaseExistsError:
            if not ignore_if_exists:
                raise

    def drop_database(self, name: str, ignore_if_not_exists: bool = False, cascade: bool = False) -> None:
        """Drop a database, with its tables if `cascade`; raises DatabaseNotFoundError or DatabaseNotEmptyError."""
        check_not_system_database(name)
        try:
            self._drop_database(name, cascade=cascade)
        except DatabaseNotFoundError:
            if not ignore_if_not_exists:
                raise

    def alter_database(
        self, name: str, set_properties: Mapping[str, str] | None = None, remove_properties: Sequence[str] = ()
    ) -> None:
        """Set and remove properties of a database; raises DatabaseNotFoundError, and InvalidOptionError as
        create_database does.
        """
        check_not_system_database(name)
        _check_properties(set_properties or {})
        self._alter_database(name, set_properties or {}, remove_properties)

    def list_tables(self, database: str) -> list[str]:
        """Names of the database's tables, sorted; raises DatabaseNotFoundError."""
        return self._system_tables() if database == SYSTEM_DATABASE else self._list_tables(database)

    def list_iceberg_tables(self, database: str) -> list[str]:
        """Names of the database's tables that are Iceberg's, sorted: `get_table` opens them to be read. None but in a
        metastore; raises DatabaseNotFoundError.
        """
        self.get_database(database)
        return []

    def get_iceberg_table(self, identifier: "str | Identifier") -> "IcebergTable | None":
        """The table if it is one of Iceberg's, also where `get_table` refuses those; None for all others. Raises
        TableNotFoundError, MissingExtraError without `interbed[iceberg]`, and as load_iceberg_table does.
        """
        return None

    def _system_tables(self) -> list[str]:
        from interbed.catalog.client.global_tables import global_tables

        return global_tables(self)

    def database_exists(self, name: str) -> bool:
        """Whether there is a database of that name."""
        try:
            self.get_database(name)
        except DatabaseNotFoundError:
            return False
        return True

    def get_table(self, identifier: "str | Identifier") -> Table:
        """The table of that name, at its latest schema; raises TableNotFoundError.

        `db.t$branch_b` is the branch `b` of the table `db.t` (BranchNotFoundError). `db.t$audit_log` and `db.t$binlog`
        are its changes, a ChangeView, and `db.t$snapshots`, `$files` and so on what is known of it, a SystemTable; also
        of a branch: `db.t$branch_b$files`. `db.t$ro` is what of it is fully compacted. `sys.tables` and the others in
        that database are about the catalog, each a GlobalTable.

        Raises InvalidInputError naming the system tables that there are.
        """
        name = TableName.parse(identifier)
        if name.identifier.database == SYSTEM_DATABASE:
            from interbed.catalog.client.global_tables import GlobalTable

            return cast(Table, GlobalTable.of(self, name.of_table.partition(".")[2]))
        table = self._load_table(name.identifier)
        if name.branch is not None:
            table = table.branch(name.branch)
        if name.system is None:
            return table
        # Hardly a caller names a system table, and those that do use what it shares with a table.
        return cast(Table, system_table(table, name.system))

    def table_exists(self, identifier: "str | Identifier") -> bool:
        """Whether there is a table of that name."""
        name = TableName.parse(identifier)
        if name.identifier.database == SYSTEM_DATABASE:
            return name.of_table.partition(".")[2].lower() in self._system_tables()
        plain = parse_table_name(identifier)
        try:
            self._load_table(plain)
        except (TableNotFoundError, DatabaseNotFoundError):
            return False
        except UNREADABLE:
            # It is there, and can be renamed and dropped.
            return True
        return True

    def table_outline(self, identifier: "str | Identifier") -> "SchemaOutline":
        """What can be made out of a table's schema, also of one that this version can't read.

        Raises TableNotFoundError, StorageAccessError.
        """
        from interbed.storage.meta.schema.outline import read_outline

        name = parse_table_name(identifier)
        if not self.table_exists(name):
            raise TableNotFoundError(f"There is no table '{name}' in {self.described}.")
        return read_outline(self.file_io, self._location_of(name))

    def list_partitions(self, identifier: "str | Identifier") -> "list[Partition]":
        """The partitions that hold rows, by the newest snapshot; raises TableNotFoundError."""
        from interbed.catalog.client.partition import partitions_of

        return partitions_of(self.get_table(identifier))

    def list_partitions_paged(
        self,
        identifier: "str | Identifier",
        max_results: int | None = None,
        page_token: str | None = None,
        partition_name_pattern: str | None = None,
    ) -> "PagedList[Partition]":
        """A page of them, by name; in the pattern `*` stands for anything: `dt=2026-*`.

        Raises InvalidInputError for a token that no page had.
        """
        from interbed.catalog.client.partition import PagedList, partition_name

        found = self.list_partitions(identifier)
        if partition_name_pattern is not None:
            wanted = re.compile(".*".join(map(re.escape, partition_name_pattern.split("*"))), re.DOTALL)
            found = [p for p in found if wanted.fullmatch(partition_name(p.spec))]
        if page_token is not None and not page_token.isdigit():
            raise InvalidInputError(f"{page_token!r} is no token of a page of partitions.")
        start = int(page_token or 0)
        end = len(found) if max_results is None else start + max(1, max_results)
        return PagedList(elements=found[start:end], next_page_token=str(end) if end < len(found) else None)

    def create_table(
        self,
        identifier: "str | Identifier",
        schema: "Schema | pa.Schema | IncomingRows",
        ignore_if_exists: bool = False,
        *,
        primary_keys: Sequence[str] | None = None,
        partition_keys: Sequence[str] | None = None,
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
    ) -> Table:
        """Create a table and return it.

        `schema` is a Schema, which holds keys and options itself, or an Arrow schema, with these as arguments, or what
        has such a schema: rows in any form that Table.append takes, which give their columns and are not written.
        Raises TableExistsError unless that is to be ignored, DatabaseNotFoundError, and InvalidInputError for a schema
        that can't be.
        """
        name = parse_table_name(identifier)
        given = given_schema(schema, primary_keys, partition_keys, options, comment)
        table_schema, path = self._table_schema(name, given)
        self.get_database(name.database)
        try:
            self._create_table(name, table_schema, path)
        except TableExistsError:
            if not ignore_if_exists:
                raise
        return self._load_table(name)

    def default_table_location(self, identifier: Identifier) -> str:
        """Where a table of that name lives by default."""
        return f"{self.get_database(identifier.database).location.rstrip('/')}/{identifier.table}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check_properties(of_database: Mapping[str, str]) -> None:
    from interbed.storage.meta.options.known.check import check_public

    check_public(of_database, "the properties of the database")


def system_table(table: Table, kind: str) -> "ChangeView | SystemTable | ReadOptimizedTable":
    """A system table of a table; raises InvalidInputError naming those that there are."""
    from interbed.storage.table.read_optimized import READ_OPTIMIZED, ReadOptimizedTable
    from interbed.storage.views.changes import AUDIT_LOG, BINLOG, ChangeView
    from interbed.storage.views.system.table import SystemTable

    if kind == READ_OPTIMIZED:
        return ReadOptimizedTable.of(table)
    if kind in (AUDIT_LOG, BINLOG):
        return ChangeView.of(table.name, table.store, kind)
    return SystemTable.of(table.name, table.store, kind)
