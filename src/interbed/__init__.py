"""interbed: a catalog server, lake storage in Apache Paimon's format, and Spark extensions, in Python.

    catalog = interbed.load_catalog("lake", warehouse="file:/tmp/lake")
    table = catalog.create_table("shop.orders", arrow_schema, primary_keys=["id"], options={"bucket": "4"})
    table.upsert(rows)
    table.scan(filter=interbed.col("amount") > 5).to_arrow()

`__all__` is what the package offers, and docs/api.md explains it. Names of modules and what they hold besides are the
package's own business, but `interbed.spark_ext` and `interbed.testing`. A name is looked up in its module when it is
used first, so that a worker which needs only the storage layer does not load catalogs.

Errors, all derived from InterbedError:

InterbedError
├── InvalidInputError (ValueError)       the caller's data or arguments are wrong; nothing was changed
│   ├── SchemaMismatchError              columns or types that do not fit the table
│   ├── FilterError                      a filter that does not parse, or names an unknown column
│   ├── InvalidOptionError               an option with a value that it does not take
│   │   └── ServerSettingsError          the same of a setting of the catalog server
│   ├── ProcedureArgumentError           an argument of a procedure is missing or wrong
│   ├── BadMessageError                  a message of a stream can't be decoded, or does not fit its table
│   ├── UnknownSchemaError               a schema registry has no schema of Avro with such a number
│   ├── UnknownWorkerError               the optimizer does not know a worker any more, which registers again
│   ├── WorkerRefusedError               the optimizer does not take a worker, and says why
│   └── UsedTwiceError (RuntimeError)    a writer or committer of one batch was used for a second one
├── NotSupportedError                    a valid request that this version does not carry out
│   └── MissingExtraError (ImportError)  an optional library is not installed; says what to install
├── CorruptFileError                     a file can't be decoded
├── UnsupportedVersionError              a file of a format version that this version does not know
├── SnapshotNotFoundError (LookupError)  no snapshot of that id or time
├── TagNotFoundError (LookupError)       no tag of that name
├── BranchNotFoundError (LookupError)    no branch of that name
├── SnapshotGoneError                    a snapshot expired while it was read; read the newest one
├── StorageAccessError (OSError)         the warehouse can't be reached, read or written
│   ├── AccessRefusedError               the store does not take the credentials, or they have expired
│   ├── FileGoneError                    a data file that a plan names is not there; plan the read again
│   └── SyncFailedError                  what was written may not outlive a power cut
├── LogUnavailableError (OSError)        the log of a table can't be reached; its files are as they were
├── CommitError                          nothing was committed; the table is as it was
│   ├── CommitConflictError              another writer changed the same files; read again and redo the work
│   │   └── DuplicateFileError           a file to be added is in the table already
│   ├── CommitFailedError                retries were used up; the same work may be retried
│   └── LockError (also a CatalogError)  the table's lock could not be had in time; may be retried
├── CommitStateUnknownError              it is not known whether the snapshot exists; nothing was cleaned up
├── CatalogError
│   ├── DatabaseNotFoundError, TableNotFoundError, ViewNotFoundError, FunctionNotFoundError (LookupError)
│   ├── DatabaseExistsError, TableExistsError, PartitionExistsError, FunctionExistsError
│   ├── DatabaseNotEmptyError            drop it with cascade, or drop its tables first
│   ├── UnregisteredTableError (also a TableNotFoundError and a TableExistsError)  register it by a repair
│   ├── NotAnInterbedTableError          the metastore's table is of another format
│   ├── TableModifiedError               another writer changed the table's entry first
│   ├── LockGoneError                    the metastore does not know the lock any more
│   ├── RestRefusedError                 a REST server failed to carry out a request
│   ├── CatalogUnavailableError (ConnectionError)  the metastore can't be reached; may be retried
│   │   └── CallStateUnknownError        the connection broke after a call was sent: it may have been carried out
│   └── CatalogAccessError (PermissionError)  the server refuses the credentials, or they lack a permission
├── MigrationError                       metadata can't be imported, exported or compared
│   ├── RefusedError                     a metastore answered a question about one object with an error
│   │   └── ObjectGoneError              the object that was asked about does not exist
│   └── MissingMethodError               a metastore does not know a method
├── SourceUnavailableError (ConnectionError)  messages can't be read at this time; may be retried
├── SourceGapError                       messages are gone from their source before they were read
├── SourceChangedError                   a source table has another key, or is another table, than before
├── SchemaRegistryError                  a schema registry refuses to give schemas, or is none
├── JournalError                         the optimizer's journal can't be read or written
│   ├── LeaseLostError                   another optimizer has taken over
│   └── SchedulerEndedError              the journal refused a change; the optimizer goes on with a new scheduler
├── NoSchedulerError                     no optimizer answers a worker; it tries again
├── NotOnDutyError                       this optimizer stands by, another one schedules
├── RepeatedKeyError                     rows of a MERGE of which each had to have a key of its own had not
└── SparkSetupError                      Spark can't be set up for interbed
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interbed.catalog.client.api import Catalog, Database
    from interbed.catalog.client.errors import (
        CallStateUnknownError,
        CatalogAccessError,
        CatalogError,
        CatalogUnavailableError,
        DatabaseExistsError,
        DatabaseNotEmptyError,
        DatabaseNotFoundError,
        FunctionExistsError,
        FunctionNotFoundError,
        LockError,
        LockGoneError,
        NotAnInterbedTableError,
        PartitionExistsError,
        TableExistsError,
        TableModifiedError,
        TableNotFoundError,
        UnregisteredTableError,
        ViewNotFoundError,
    )
    from interbed.catalog.client.factory import CatalogFactory, load_catalog
    from interbed.catalog.client.filesystem import FileSystemCatalog
    from interbed.catalog.client.functions import CatalogFunction, FunctionChange, FunctionDefinition
    from interbed.catalog.client.grants import (
        AccessGrant,
        AccessPolicy,
        GrantHolder,
        GrantObject,
        RoleMembership,
    )
    from interbed.catalog.client.hive.catalog import HiveCatalog
    from interbed.catalog.client.identifier import Identifier
    from interbed.catalog.client.partition import Partition
    from interbed.catalog.client.recovery import DroppedEntry
    from interbed.catalog.client.rest.catalog import RestCatalog
    from interbed.catalog.client.rest.http import RestRefusedError
    from interbed.catalog.server.migration.connection import ObjectGoneError
    from interbed.catalog.server.migration.record import MigrationError, MissingMethodError, RefusedError
    from interbed.catalog.server.setting_kinds import ServerSettingsError
    from interbed.iceberg.optimize.compact import IcebergCompaction
    from interbed.iceberg.optimize.expire import IcebergExpiry, IcebergOrphans
    from interbed.iceberg.table import IcebergExplanation, IcebergScan, IcebergTable, load_iceberg_table
    from interbed.ingest.flow.messages import (
        BadMessageError,
        SchemaRegistryError,
        SourceChangedError,
        SourceGapError,
        SourceUnavailableError,
        UnknownSchemaError,
    )
    from interbed.optimizer.flow.process import (
        JournalError,
        LeaseLostError,
        NoSchedulerError,
        NotOnDutyError,
        SchedulerEndedError,
        UnknownWorkerError,
        WorkerRefusedError,
    )
    from interbed.spark_ext.handle.reports import RepeatedKeyError
    from interbed.spark_ext.procedures.procedure import ProcedureArgumentError
    from interbed.spark_ext.session import SparkSetupError
    from interbed.storage.base.errors import (
        AccessRefusedError,
        BranchNotFoundError,
        CommitConflictError,
        CommitError,
        CommitFailedError,
        CommitStateUnknownError,
        CorruptFileError,
        FileGoneError,
        FilterError,
        InterbedError,
        InvalidInputError,
        InvalidOptionError,
        LogUnavailableError,
        MissingExtraError,
        NotSupportedError,
        SchemaMismatchError,
        SnapshotGoneError,
        SnapshotNotFoundError,
        StorageAccessError,
        SyncFailedError,
        TagNotFoundError,
        UnsupportedVersionError,
        UsedTwiceError,
    )
    from interbed.storage.base.predicate.conditions import Column, col
    from interbed.storage.base.predicate.expr import Predicate
    from interbed.storage.base.types.arrow import data_type
    from interbed.storage.base.types.data_type import (
        ArrayType,
        AtomicType,
        DataField,
        DataType,
        MapType,
        MultisetType,
        RowType,
        TypeRoot,
    )
    from interbed.storage.base.types.far_times import FarDate, FarTimestamp
    from interbed.storage.commit.changes import DuplicateFileError
    from interbed.storage.meta.schema.change import Move, SchemaChange
    from interbed.storage.meta.schema.table_schema import Schema, TableSchema
    from interbed.storage.meta.snapshot.snapshot import Snapshot
    from interbed.storage.meta.snapshot.tag import Tag
    from interbed.storage.read.query import Scan
    from interbed.storage.scan.explain import Explanation
    from interbed.storage.scan.summary.estimate import TableStatistics
    from interbed.storage.table.format_table.format_table import FormatTable
    from interbed.storage.table.object_table import ObjectTable
    from interbed.storage.table.schema_update import SchemaUpdate
    from interbed.storage.table.table import Table, load_table
    from interbed.storage.table.table_maintenance import TableMaintenance
    from interbed.storage.table.table_versions import TableVersions
    from interbed.storage.upkeep.bucket_health import BucketHealth
    from interbed.storage.upkeep.health import HealthReason, TableHealth
    from interbed.storage.upkeep.rescale import RescaleResult
    from interbed.storage.version.expire import ExpiryResult
    from interbed.storage.version.orphans import OrphansResult
    from interbed.storage.views.changes import ChangeQuery, ChangeView
    from interbed.storage.views.levels import TableLevels
    from interbed.storage.views.stream.stream_scan import TableStream
    from interbed.storage.views.system.table import SystemTable
    from interbed.storage.write.commit_message import CompactionResult, PlannedCompaction

__version__ = "0.1.0"

__all__ = [
    "AccessGrant",
    "AccessPolicy",
    "AccessRefusedError",
    "ArrayType",
    "AtomicType",
    "BadMessageError",
    "BranchNotFoundError",
    "BucketHealth",
    "CallStateUnknownError",
    "Catalog",
    "CatalogAccessError",
    "CatalogError",
    "CatalogFactory",
    "CatalogFunction",
    "CatalogUnavailableError",
    "ChangeQuery",
    "ChangeView",
    "Column",
    "CommitConflictError",
    "CommitError",
    "CommitFailedError",
    "CommitStateUnknownError",
    "CompactionResult",
    "CorruptFileError",
    "DataField",
    "DataType",
    "Database",
    "DatabaseExistsError",
    "DatabaseNotEmptyError",
    "DatabaseNotFoundError",
    "DroppedEntry",
    "DuplicateFileError",
    "ExpiryResult",
    "Explanation",
    "FarDate",
    "FarTimestamp",
    "FileGoneError",
    "FileSystemCatalog",
    "FilterError",
    "FormatTable",
    "FunctionChange",
    "FunctionDefinition",
    "FunctionExistsError",
    "FunctionNotFoundError",
    "GrantHolder",
    "GrantObject",
    "HealthReason",
    "HiveCatalog",
    "IcebergCompaction",
    "IcebergExpiry",
    "IcebergExplanation",
    "IcebergOrphans",
    "IcebergScan",
    "IcebergTable",
    "Identifier",
    "InterbedError",
    "InvalidInputError",
    "InvalidOptionError",
    "JournalError",
    "LeaseLostError",
    "LockError",
    "LockGoneError",
    "LogUnavailableError",
    "MapType",
    "MigrationError",
    "MissingExtraError",
    "MissingMethodError",
    "Move",
    "MultisetType",
    "NoSchedulerError",
    "NotAnInterbedTableError",
    "NotOnDutyError",
    "NotSupportedError",
    "ObjectGoneError",
    "ObjectTable",
    "OrphansResult",
    "Partition",
    "PartitionExistsError",
    "PlannedCompaction",
    "Predicate",
    "ProcedureArgumentError",
    "RefusedError",
    "RepeatedKeyError",
    "RescaleResult",
    "RestCatalog",
    "RestRefusedError",
    "RoleMembership",
    "RowType",
    "Scan",
    "SchedulerEndedError",
    "Schema",
    "SchemaChange",
    "SchemaMismatchError",
    "SchemaRegistryError",
    "SchemaUpdate",
    "ServerSettingsError",
    "Snapshot",
    "SnapshotGoneError",
    "SnapshotNotFoundError",
    "SourceChangedError",
    "SourceGapError",
    "SourceUnavailableError",
    "SparkSetupError",
    "StorageAccessError",
    "SyncFailedError",
    "SystemTable",
    "Table",
    "TableExistsError",
    "TableHealth",
    "TableLevels",
    "TableMaintenance",
    "TableModifiedError",
    "TableNotFoundError",
    "TableSchema",
    "TableStatistics",
    "TableStream",
    "TableVersions",
    "Tag",
    "TagNotFoundError",
    "TypeRoot",
    "UnknownSchemaError",
    "UnknownWorkerError",
    "UnregisteredTableError",
    "UnsupportedVersionError",
    "UsedTwiceError",
    "ViewNotFoundError",
    "WorkerRefusedError",
    "__version__",
    "col",
    "data_type",
    "load_catalog",
    "load_iceberg_table",
    "load_table",
]

# Module -> the public names that it holds.
_HOLDS = {
    "interbed.catalog.client.grants": "AccessGrant AccessPolicy GrantHolder GrantObject RoleMembership",
    "interbed.catalog.client.api": "Catalog Database",
    "interbed.catalog.client.errors": (
        "CallStateUnknownError CatalogAccessError CatalogError CatalogUnavailableError DatabaseExistsError "
        "DatabaseNotEmptyError DatabaseNotFoundError FunctionExistsError FunctionNotFoundError "
        "LockError LockGoneError NotAnInterbedTableError PartitionExistsError TableExistsError TableModifiedError "
        "TableNotFoundError "
        "UnregisteredTableError ViewNotFoundError"
    ),
    "interbed.catalog.client.recovery": "DroppedEntry",
    "interbed.catalog.client.factory": "CatalogFactory load_catalog",
    "interbed.catalog.client.filesystem": "FileSystemCatalog",
    "interbed.catalog.client.functions": "CatalogFunction FunctionChange FunctionDefinition",
    "interbed.catalog.client.hive.catalog": "HiveCatalog",
    "interbed.catalog.client.rest.catalog": "RestCatalog",
    "interbed.catalog.client.rest.http": "RestRefusedError",
    "interbed.catalog.client.identifier": "Identifier",
    "interbed.catalog.server.migration.connection": "ObjectGoneError",
    "interbed.catalog.server.migration.record": "MigrationError MissingMethodError RefusedError",
    "interbed.catalog.client.partition": "Partition",
    "interbed.catalog.server.settings": "ServerSettingsError",
    "interbed.iceberg.optimize.expire": "IcebergExpiry IcebergOrphans",
    "interbed.iceberg.optimize.compact": "IcebergCompaction",
    "interbed.iceberg.table": "IcebergExplanation IcebergScan IcebergTable load_iceberg_table",
    "interbed.ingest.flow.messages": (
        "BadMessageError SchemaRegistryError SourceChangedError SourceGapError SourceUnavailableError "
        "UnknownSchemaError"
    ),
    "interbed.optimizer.flow.process": (
        "JournalError LeaseLostError NoSchedulerError NotOnDutyError SchedulerEndedError UnknownWorkerError "
        "WorkerRefusedError"
    ),
    "interbed.spark_ext.handle.reports": "RepeatedKeyError",
    "interbed.spark_ext.procedures.procedure": "ProcedureArgumentError",
    "interbed.spark_ext.session": "SparkSetupError",
    "interbed.storage.base.errors": (
        "AccessRefusedError BranchNotFoundError CommitConflictError CommitError CommitFailedError "
        "CommitStateUnknownError CorruptFileError FileGoneError FilterError InterbedError InvalidInputError "
        "InvalidOptionError "
        "LogUnavailableError MissingExtraError NotSupportedError SchemaMismatchError SnapshotGoneError "
        "SnapshotNotFoundError StorageAccessError SyncFailedError TagNotFoundError UnsupportedVersionError "
        "UsedTwiceError"
    ),
    "interbed.storage.base.predicate.conditions": "Column col",
    "interbed.storage.base.predicate.expr": "Predicate",
    "interbed.storage.base.types.far_times": "FarDate FarTimestamp",
    "interbed.storage.base.types.data_type": (
        "ArrayType AtomicType DataField DataType MapType MultisetType RowType TypeRoot"
    ),
    "interbed.storage.base.types.arrow": "data_type",
    "interbed.storage.commit.changes": "DuplicateFileError",
    "interbed.storage.meta.schema.change": "Move SchemaChange",
    "interbed.storage.meta.schema.table_schema": "Schema TableSchema",
    "interbed.storage.meta.snapshot.snapshot": "Snapshot",
    "interbed.storage.meta.snapshot.tag": "Tag",
    "interbed.storage.read.query": "Scan",
    "interbed.storage.scan.explain": "Explanation",
    "interbed.storage.table.format_table.format_table": "FormatTable",
    "interbed.storage.table.object_table": "ObjectTable",
    "interbed.storage.table.schema_update": "SchemaUpdate",
    "interbed.storage.table.table": "Table load_table",
    "interbed.storage.table.table_maintenance": "TableMaintenance",
    "interbed.storage.table.table_versions": "TableVersions",
    "interbed.storage.scan.summary.estimate": "TableStatistics",
    "interbed.storage.upkeep.bucket_health": "BucketHealth",
    "interbed.storage.write.commit_message": "CompactionResult PlannedCompaction",
    "interbed.storage.upkeep.health": "HealthReason TableHealth",
    "interbed.storage.upkeep.rescale": "RescaleResult",
    "interbed.storage.version.expire": "ExpiryResult",
    "interbed.storage.version.orphans": "OrphansResult",
    "interbed.storage.views.changes": "ChangeQuery ChangeView",
    "interbed.storage.views.levels": "TableLevels",
    "interbed.storage.views.stream.stream_scan": "TableStream",
    "interbed.storage.views.system.table": "SystemTable",
}
_HOMES = {name: home for home, names in _HOLDS.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'interbed' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
