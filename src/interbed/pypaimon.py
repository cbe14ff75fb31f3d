"""Names that code written for pypaimon imports, in one place: `from interbed.pypaimon import DataField, AtomicType`.

The main names are those of `interbed` itself: `from interbed import CatalogFactory, Schema`. In pypaimon the others lie
in a tree of modules (`pypaimon.schema.data_types` and so on); here all are in this one. What differs is in
docs/pypaimon.md.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from interbed.catalog.client.api import Catalog, Database
from interbed.catalog.client.errors import (
    CatalogAccessError,
    DatabaseExistsError,
    DatabaseNotFoundError,
    TableExistsError,
    TableNotFoundError,
    ViewNotFoundError,
)
from interbed.catalog.client.factory import CatalogFactory
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.partition import PagedList, PartitionStatistics
from interbed.storage.base.errors import (
    BranchNotFoundError,
    InterbedError,
    InvalidInputError,
    TagNotFoundError,
)
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.types.arrow import (
    FieldIds,
    fields_from_arrow,
    fields_to_schema,
    type_from_arrow,
    type_to_arrow,
)
from interbed.storage.base.types.data_type import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
)
from interbed.storage.meta.bucket_mode import BucketMode
from interbed.storage.meta.schema.change import Move, SchemaChange
from interbed.storage.meta.schema.table_schema import Schema, TableSchema
from interbed.storage.meta.snapshot.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from interbed.storage.meta.snapshot.tag import Tag
from interbed.storage.scan.split import Split
from interbed.storage.table.table import Table
from interbed.storage.views.builder.managers import ConfigOption
from interbed.storage.views.builder.managers import OptionNames as CoreOptions
from interbed.storage.views.builder.read import BuiltPlan as Plan
from interbed.storage.views.builder.read import BuiltRead as TableRead
from interbed.storage.views.builder.read import BuiltScan as TableScan
from interbed.storage.views.builder.read import ReadBuilder
from interbed.storage.views.builder.rows_read import ExplainResult, PredicateBuilder, PruningStat
from interbed.storage.views.builder.stream_read import StreamReadBuilder
from interbed.storage.views.builder.write import (
    BatchTableCommit,
    BatchTableWrite,
    BatchWriteBuilder,
    CommitCallback,
    CommitCallbackContext,
    StreamTableCommit,
    StreamTableWrite,
    StreamWriteBuilder,
)
from interbed.storage.write.commit_message import CommitMessage

FileStoreTable = Table
DataSplit = Split

CatalogException = InterbedError
DatabaseNotExistException = DatabaseNotFoundError
DatabaseAlreadyExistException = DatabaseExistsError
TableNotExistException = TableNotFoundError
TableAlreadyExistException = TableExistsError
DatabaseNoPermissionException = CatalogAccessError
TableNoPermissionException = CatalogAccessError
ViewNotExistException = ViewNotFoundError
TagNotExistException = TagNotFoundError
BranchNotExistException = BranchNotFoundError
ColumnNotExistException = InvalidInputError
ColumnAlreadyExistException = InvalidInputError
TagAlreadyExistException = InvalidInputError
BranchAlreadyExistException = InvalidInputError
IllegalArgumentError = InvalidInputError


class Options(dict[str, Any]):
    """Options by key: a dict with the methods of pypaimon's class."""

    def to_map(self) -> Mapping[str, Any]:
        """Options of a table as pypaimon reads them."""
        return self

    def contains(self, option: "ConfigOption | str") -> bool:
        """Return whether the option is set."""
        return str(option) in self


class DataTypeParser:
    """Types from their form in a schema file."""

    @staticmethod
    def parse_data_type(data: Any) -> DataType:
        """The type of text or of a dict; raises CorruptFileError."""
        return DataType.from_dict(data)

    @staticmethod
    def parse_data_field(data: Mapping[str, Any]) -> DataField:
        """The field of a dict; raises CorruptFileError."""
        return DataField.from_dict(data)


class PyarrowFieldParser:
    """Types and schemas between Arrow and Paimon."""

    @staticmethod
    def to_paimon_type(pa_type: Any, nullable: bool = True) -> DataType:
        """The type of an Arrow type; raises SchemaMismatchError for one without counterpart."""
        return type_from_arrow(pa_type, next_id=FieldIds()).with_nullable(nullable)

    @staticmethod
    def from_paimon_type(data_type: DataType) -> Any:
        """The Arrow type of a type."""
        return type_to_arrow(data_type)

    @staticmethod
    def to_paimon_schema(pa_schema: Any) -> list[DataField]:
        """The fields of an Arrow schema; raises SchemaMismatchError for a type without counterpart."""
        return list(fields_from_arrow(list(pa_schema), FieldIds()))

    @staticmethod
    def from_paimon_schema(data_fields: Sequence[DataField]) -> Any:
        """The Arrow schema of fields."""
        return fields_to_schema(data_fields)


__all__ = [
    "BATCH_COMMIT_IDENTIFIER",
    "ArrayType",
    "AtomicType",
    "BatchTableCommit",
    "BatchTableWrite",
    "BatchWriteBuilder",
    "BranchAlreadyExistException",
    "BranchNotExistException",
    "BucketMode",
    "Catalog",
    "CatalogException",
    "CatalogFactory",
    "ColumnAlreadyExistException",
    "ColumnNotExistException",
    "CommitCallback",
    "CommitCallbackContext",
    "CommitMessage",
    "ConfigOption",
    "CoreOptions",
    "DataField",
    "DataSplit",
    "DataType",
    "DataTypeParser",
    "Database",
    "DatabaseAlreadyExistException",
    "DatabaseNoPermissionException",
    "DatabaseNotExistException",
    "ExplainResult",
    "FileStoreTable",
    "Identifier",
    "IllegalArgumentError",
    "MapType",
    "Move",
    "MultisetType",
    "Options",
    "PagedList",
    "PartitionStatistics",
    "Plan",
    "Predicate",
    "PredicateBuilder",
    "PruningStat",
    "PyarrowFieldParser",
    "ReadBuilder",
    "RowKind",
    "RowType",
    "Schema",
    "SchemaChange",
    "Snapshot",
    "Split",
    "StreamReadBuilder",
    "StreamTableCommit",
    "StreamTableWrite",
    "StreamWriteBuilder",
    "Table",
    "TableAlreadyExistException",
    "TableNoPermissionException",
    "TableNotExistException",
    "TableRead",
    "TableScan",
    "TableSchema",
    "Tag",
    "TagAlreadyExistException",
    "TagNotExistException",
    "ViewNotExistException",
]
