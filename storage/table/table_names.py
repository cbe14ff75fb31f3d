"""The names of pypaimon's methods for `Table`, so that code written for pypaimon runs; see docs/pypaimon.md."""

from typing import TYPE_CHECKING

from interbed.storage.base.types.data_type import DataField
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode, crosses_partitions
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.schema.manager import SchemaManager
from interbed.storage.meta.schema.table_schema import TableSchema

if TYPE_CHECKING:
    from interbed.storage.views.builder.managers import (
        BuiltBranches,
        BuiltConsumers,
        BuiltFiles,
        BuiltSnapshots,
        BuiltTags,
    )
    from interbed.storage.views.builder.read import ReadBuilder
    from interbed.storage.views.builder.stream_read import StreamReadBuilder
    from interbed.storage.views.builder.write import BatchWriteBuilder, StreamWriteBuilder


class PypaimonNames:
    """The builders of a table, and its parts, by pypaimon's names."""

    name: str
    store: FileStore

    # -- builders --------------------------------------------------------------------------------------------------

    def new_read_builder(self) -> "ReadBuilder":
        """Return pypaimon's read builder of one snapshot."""
        from interbed.storage.views.builder.read import ReadBuilder

        return ReadBuilder(self.store, name=self.name)

    def new_stream_read_builder(self) -> "StreamReadBuilder":
        """Return pypaimon's read builder for a sequence of snapshots."""
        from interbed.storage.views.builder.stream_read import StreamReadBuilder

        return StreamReadBuilder(self.store)

    def new_batch_write_builder(self) -> "BatchWriteBuilder":
        """Return pypaimon's write builder for one commit."""
        from interbed.storage.views.builder.write import BatchWriteBuilder

        return BatchWriteBuilder(self.store)

    def new_stream_write_builder(self) -> "StreamWriteBuilder":
        """Return pypaimon's write builder for a sequence of commits, each with its identifier."""
        from interbed.storage.views.builder.write import StreamWriteBuilder

        return StreamWriteBuilder(self.store)

    def new_postpone_fixed_bucket_write_builder(self) -> "BatchWriteBuilder":
        """Return pypaimon's write builder for one commit to the real buckets of a table with postponed ones."""
        from interbed.storage.views.builder.write import BatchWriteBuilder

        return BatchWriteBuilder(self.store.with_options({"postpone.batch-write-fixed-bucket": "true"}))

    # -- metadata --------------------------------------------------------------------------------------------------

    @property
    def table_schema(self) -> TableSchema:
        """The schema, with its options."""
        return self.store.schema

    @property
    def table_path(self) -> str:
        """The directory of the table."""
        return self.store.location

    @property
    def schema_manager(self) -> SchemaManager:
        """The manager of the versions of the schema."""
        return self.store.schemas

    @property
    def is_primary_key_table(self) -> bool:
        """Whether the table has a primary key."""
        return self.store.schema.has_primary_key

    @property
    def field_dict(self) -> dict[str, DataField]:
        """The columns by name."""
        return dict(self.store.schema.by_name)

    @property
    def trimmed_primary_keys(self) -> list[str]:
        """The columns of the primary key that are not partition columns."""
        return list(self.store.schema.trimmed_primary_keys)

    @property
    def primary_keys_fields(self) -> list[DataField]:
        """The columns of the primary key."""
        return list(self.store.schema.fields_named(self.store.schema.primary_keys))

    @property
    def partition_keys_fields(self) -> list[DataField]:
        """The columns of the partition key."""
        return list(self.store.schema.partition_fields)

    @property
    def cross_partition_update(self) -> bool:
        """Whether a key may move between partitions, because the primary key lacks one of their columns."""
        return crosses_partitions(self.store.schema)

    @property
    def total_buckets(self) -> int:
        """The value of the option `bucket`."""
        return self.store.options.bucket

    def bucket_mode(self) -> BucketMode:
        """Return the bucket mode of the table."""
        return bucket_mode(self.store.schema, self.store.options)

    def comment(self) -> str | None:
        """Return the comment of the table."""
        return self.store.schema.comment

    def current_branch(self) -> str:
        """Return the name of the branch, `main` for the table itself."""
        return self.store.paths.branch

    @property
    def file_io(self) -> "BuiltFiles":
        """The file system of the table, with pypaimon's methods."""
        from interbed.storage.views.builder.managers import BuiltFiles

        return BuiltFiles(self.store.file_io)

    def snapshot_manager(self) -> "BuiltSnapshots":
        """Return pypaimon's manager of the snapshots."""
        from interbed.storage.views.builder.managers import BuiltSnapshots

        return BuiltSnapshots(self.store)

    def tag_manager(self) -> "BuiltTags":
        """Return pypaimon's manager of the tags."""
        from interbed.storage.views.builder.managers import BuiltTags

        return BuiltTags(self.store)

    def branch_manager(self) -> "BuiltBranches":
        """Return pypaimon's manager of the branches."""
        from interbed.storage.views.builder.managers import BuiltBranches

        return BuiltBranches(self.store)

    def consumer_manager(self) -> "BuiltConsumers":
        """Return pypaimon's manager of the consumers."""
        from interbed.storage.views.builder.managers import BuiltConsumers

        return BuiltConsumers(self.store)

    def list_tags(self) -> list[str]:
        """Return the names of the tags."""
        return self.tag_manager().list_tags()
