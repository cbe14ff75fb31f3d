"""Rules for changing options of a table with files (Paimon's documentation: concepts/schema-evolution). Pure.

Source: paimon-core `schema.SchemaManager.checkAlterTableOption` and `CoreOptions.IMMUTABLE_OPTIONS`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.meta.options.core import (
    BUCKET,
    BUCKET_KEY,
    DELETION_VECTORS,
    PARTITION,
    PATH,
    PRIMARY_KEY,
    CoreOptions,
    option_text,
)
from interbed.storage.meta.options.known.check import check_names, check_supported
from interbed.storage.meta.schema.table_schema import OptionRules, TableSchema

IMMUTABLE_OPTIONS = frozenset(
    {
        "type",
        BUCKET_KEY,
        "bucket-function.type",
        "data-file.path-directory",
        "merge-engine",
        "sequence.snapshot-ordering",
        "aggregation.remove-record-on-delete",
        "partial-update.remove-record-on-delete",
        "partial-update.remove-record-on-sequence-group",
        "rowkind.field",
        PRIMARY_KEY,
        "primary-key.nullable",
        PARTITION,
        "dynamic-bucket.initial-buckets",
        "force-lookup",
        "row-tracking.enabled",
        "data-evolution.enabled",
        "index-file-in-data-file-dir",
        "partition.default-name",
        "partition.legacy-name",
        "manifest.format",
    }
)
"""Options that existing files depend on.

Paimon allows changes of the two options of partition directories and of the format of manifests, and then does not find
the files; interbed refuses them.
"""

KEYS = frozenset({PRIMARY_KEY, PARTITION})
"""Options that replace missing keys of the schema; a table without keys and files may get some."""


def check_option(schema: TableSchema, key: str, value: str | None, has_snapshots: bool = True) -> None:
    """Refuse to set an option to a value (None: to its default) that files depend on; raises InvalidOptionError."""
    old = schema.options.get(key)
    if old == value:
        return
    if key == PATH:
        raise InvalidOptionError(f"Option '{key}' can't be changed: make a new table.")
    if key in KEYS:
        keys = schema.primary_keys if key == PRIMARY_KEY else schema.partition_keys
        same = value is not None and CoreOptions({key: value}).names(key) == keys
        if not same and (has_snapshots or keys or value is None):
            raise InvalidOptionError(f"Option '{key}' can't be changed: make a new table.")
        return
    if not has_snapshots:
        return
    if key in IMMUTABLE_OPTIONS:
        raise InvalidOptionError(f"Option '{key}' can't be changed: the table's files depend on it.")
    if key == BUCKET:
        new_bucket = -1 if value is None else CoreOptions({BUCKET: value}).bucket
        if schema.core.bucket < 1 or new_bucket < 1:
            raise InvalidOptionError(
                f"Option 'bucket' can't be changed from {schema.core.bucket} to {new_bucket}; only a fixed number of "
                "buckets can be changed, to another fixed number."
            )
    if key in ("ignore-delete", "ignore-update-before") and schema.core.boolean(key, False):
        raise InvalidOptionError(f"Option '{key}' can't be changed from true to false.")
    if key == DELETION_VECTORS and not schema.core.boolean("deletion-vectors.modifiable", False):
        new = CoreOptions({} if value is None else {key: value}).deletion_vectors_enabled
        if new != schema.core.deletion_vectors_enabled:
            raise InvalidOptionError(
                "Option 'deletion-vectors.enabled' can't be changed, because deleted rows could come back; set "
                "'deletion-vectors.modifiable' to allow it."
            )


def _is_layout(schema: TableSchema, key: str) -> bool:
    """Return whether the option determines how files are read; without a primary key vectors are always valid."""
    return key in IMMUTABLE_OPTIONS or key == BUCKET or (key == DELETION_VECTORS and schema.has_primary_key)


def check_dynamic_options(schema: TableSchema, options: Mapping[str, str]) -> None:
    """Refuse dynamic options that change the layout of existing files, are misspelt, or are not supported.

    Raises InvalidOptionError and NotSupportedError naming the key.
    """
    check_names(options, schema.options)
    check_supported(options, schema.options, partitioned=bool(schema.partition_keys))
    for key, value in options.items():
        if _is_layout(schema, key) and schema.options.get(key) != value:
            raise InvalidOptionError(f"Option '{key}' is part of the table's layout and can't be set dynamically.")
        if key != PATH:
            check_option(schema, key, value)


def check_dynamic_removal(schema: TableSchema, keys: Iterable[str]) -> None:
    """Refuse to ignore options of the table that determine the layout of its files; raises InvalidOptionError."""
    for key in keys:
        if key in schema.options and _is_layout(schema, key):
            raise InvalidOptionError(f"Option '{key}' is part of the table's layout and can't be left aside.")


def dynamic_option(key: str, value: object) -> str:
    """Return a dynamic option's value as it is stored.

    Raises InvalidOptionError for a value that is no text, number or boolean.
    """
    if not isinstance(value, str | int | float):
        raise InvalidOptionError(f"Option {key!r} takes a text, a number or a boolean, not {value!r}.")
    return option_text(value)


def check_together(schema: TableSchema, options: Mapping[str, str], rules: OptionRules) -> None:
    """Refuse dynamic options that contradict the table's own or one another; raises InvalidOptionError."""
    if options:
        rules(replace(schema, options={**schema.options, **options}), before=schema)
