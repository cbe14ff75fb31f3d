"""Where storage calls the publishing of tables as Iceberg tables: see interbed.commit_listeners."""

import logging
import os

import pyarrow as pa

from interbed.iceberg.publish.columns import check_versions, first_changed, iceberg_schema
from interbed.iceberg.publish.publication import publish
from interbed.iceberg.publish.register import metastore_address
from interbed.iceberg.publish.settings import FORMAT_VERSION, STORAGE, PublishSettings, Storage
from interbed.storage.base.errors import InterbedError, InvalidOptionError, NotSupportedError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.table_schema import TableSchema

_log = logging.getLogger(__name__)
_FORMAT = "parquet"
_PER_LEVEL = "file.format.per.level"


class IcebergPublishing:
    """What storage knows of publishing (storage.meta.commit_listener.CommitListener)."""

    def check(self, schema: TableSchema, before: TableSchema | None) -> None:
        """Raise InvalidOptionError for options that contradict it, NotSupportedError for columns that Iceberg has not,
        and for a change of a type that Iceberg's readers do not follow.
        """
        options = schema.core
        settings = PublishSettings.of(options)
        if before is None or _storage_of(before) is Storage.DISABLED or _files_of(before) != _files_of(schema):
            _check_formats(options)
            _check_vectors(options, settings)
            if settings.storage is Storage.HIVE_CATALOG:
                # One that can't be found is said now rather than after each commit.
                metastore_address(settings, os.environ)
        check_versions(iceberg_schema(schema), settings.format_version)
        if before is None or _storage_of(before) is Storage.DISABLED:
            return
        was = PublishSettings.of(before.core).format_version
        if was > settings.format_version:
            raise InvalidOptionError(
                f"Option '{FORMAT_VERSION}' is {was} and can't become {settings.format_version}: Iceberg tables never "
                "go back."
            )
        changed = first_changed(before.fields, schema.fields)
        if changed is not None:
            raise NotSupportedError(
                f"The column '{changed}' of a table that is published as an Iceberg table can't get that type, as "
                "which Iceberg does not read the values that there are; add another column, or publish it no more "
                f"('{STORAGE}' = '{Storage.DISABLED}')."
            )

    def follow(self, store: FileStore) -> None:
        """Publish what was committed or changed. That stands whatever becomes of this: failures are logged, and made
        up for after a later commit.
        """
        try:
            publish(store)
        except (InterbedError, OSError, ValueError, pa.ArrowException) as error:
            _log.warning(
                "The newest snapshot of %s is not published as Iceberg's yet; a later commit, or "
                "table.maintenance.publish_iceberg(), publishes it: %s",
                store.location,
                error,
            )

    def publish(self, store: FileStore) -> int | None:
        """Publish the newest snapshot; its id, None for a table without one. Raises as publication.publish does."""
        return publish(store)


PUBLISHING = IcebergPublishing()


def _storage_of(schema: TableSchema) -> Storage:
    return PublishSettings.of(schema.core).storage


def _files_of(schema: TableSchema) -> tuple[object, ...]:
    """What contradictions are about; a table that Java made with one keeps it."""
    options = schema.core
    formats = (options.file_format, tuple(options.by_level(_PER_LEVEL).values()))
    vectors = (options.deletion_vectors_enabled, options.deletion_vectors_bitmap64)
    return (*formats, *vectors, PublishSettings.of(options).format_version)


def _check_formats(options: CoreOptions) -> None:
    formats = [("file.format", options.file_format)]
    formats += [(_PER_LEVEL, name) for name in options.by_level(_PER_LEVEL).values()]
    for key, name in formats:
        if name.lower() != _FORMAT:
            raise InvalidOptionError(
                f"Options '{STORAGE}' and '{key}' = '{options.raw.get(key, name)}' contradict each other: Iceberg's "
                f"readers find columns by their ids, which {name} files have not. Set '{key}' = '{_FORMAT}'."
            )


def _check_vectors(options: CoreOptions, settings: PublishSettings) -> None:
    if not options.deletion_vectors_enabled:
        return
    if settings.format_version < 3:
        raise InvalidOptionError(
            f"Option '{STORAGE}' with 'deletion-vectors.enabled' = 'true' needs '{FORMAT_VERSION}' = '3': older "
            "versions of Iceberg's format have no deletion vectors."
        )
    if not options.deletion_vectors_bitmap64:
        raise InvalidOptionError(
            f"Option '{STORAGE}' with 'deletion-vectors.enabled' = 'true' needs 'deletion-vectors.bitmap64' = 'true': "
            "Iceberg's deletion vectors are of 64 bits."
        )
