"""Rules for combinations of options, keys and columns of a table: Paimon's SchemaValidation as a list of rules. Pure.

`check_options` checks a whole schema: when a table is made or altered, and when dynamic options are set on top of its
own. `CoreOptions.check` checks the value of each option by itself, `validate_schema` names, keys and types. Source:
paimon-core `schema.SchemaValidation`, `mergetree.compact.PartialUpdateMergeFunction`; documentation page
`maintenance/configurations`.
"""

from collections.abc import Callable, Iterator, Sequence

from interbed.storage.base.errors import InvalidInputError, InvalidOptionError
from interbed.storage.base.types.data_type import STRINGS, TIMESTAMPS, AtomicType, TypeRoot, is_atomic
from interbed.storage.files.file_index.spec import FileIndexSpec
from interbed.storage.files.format.layout import FileKinds
from interbed.storage.lsm.merge_function.factory import check_merge_options
from interbed.storage.lsm.merge_function.fields.functions import check_function_name
from interbed.storage.meta.bucket_function import BucketFunction, bucket_function
from interbed.storage.meta.bucket_mode import crosses_partitions
from interbed.storage.meta.commit_listener import commit_listeners
from interbed.storage.meta.manifest.manifest_file import check_codec
from interbed.storage.meta.options.core import BUCKET, BUCKET_KEY, CoreOptions
from interbed.storage.meta.options.format import is_format_table, is_object_table
from interbed.storage.meta.options.known.check import check_names, check_supported
from interbed.storage.meta.options.log import LogSystem
from interbed.storage.meta.options.lsm import ChangelogProducer, MergeEngine
from interbed.storage.meta.options.optimizing import OPTIMIZING_ORDER_BY, OPTIMIZING_ORDER_STRATEGY
from interbed.storage.meta.paths import POSTPONE_BUCKET
from interbed.storage.meta.schema.apply import apply_changes
from interbed.storage.meta.schema.change import SchemaChange
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.table.log_rules import log_of, log_rule
from interbed.storage.table.schema_update import check_new_values

Rule = Callable[[TableSchema, CoreOptions], None]

_FIELDS = "fields."
_EVERY_FIELD = "default-aggregate-function"
_AGGREGATE = ".aggregate-function"
_GROUP = ".sequence-group"
_UPSERT_KEY = "upsert-key"
_TIME_FIELD = "record-level.time-field"
_TIME_TYPES = (TypeRoot.INT, TypeRoot.BIGINT, *TIMESTAMPS)


def check_options(schema: TableSchema, before: TableSchema | None = None) -> None:
    """Raise InvalidOptionError for options that contradict each other, the keys or the columns.

    NotSupportedError for features that this version lacks. The message names the options and the way out. `before` is
    the schema of the table that is changed, which may keep options that Java Paimon accepted.
    """
    if is_format_table(schema.options) and (before is None or is_format_table(before.options)):
        # By use: it loads the formats of text files.
        from interbed.storage.table.format_table.definition import check_format_table

        check_format_table(schema, before)
        return
    if is_object_table(schema.options) and (before is None or is_object_table(before.options)):
        # By use: most tables are none.
        from interbed.storage.table.object_table import check_object_table

        check_object_table(schema, before)
        return
    if before is None and "" in schema.partition_keys:
        raise InvalidInputError("A partition column needs a name, by which its directories are found.")
    had = None if before is None else before.options
    check_names(schema.options, had)
    options = schema.core
    options.check()
    if before is None or not _has_input_with_vectors(before.core):
        _no_input_with_vectors(options)
    check_new_values(schema, had)
    for rule in _RULES:
        rule(schema, options)
    if schema.has_primary_key:
        check_merge_options(schema, options)
    FileKinds.of(options, schema.fields, schema.key_fields)
    indexes = FileIndexSpec.of(schema.fields, options.raw, in_manifest_threshold=0)
    if options.log_system is not LogSystem.NONE and (before is None or log_of(before.core) != log_of(options)):
        from interbed.storage.log.kafka import LogSettings, check_settings

        check_settings(LogSettings.of(options))
    if before is None:
        for column in indexes.columns:
            column.check_options()
        _named_columns(schema, options)
    # Last, because contradictions between options have more specific messages.
    check_supported(schema.options, had, partitioned=bool(schema.partition_keys))
    for listener in commit_listeners(schema.options):
        listener.check(schema, before)


def changed_schema(
    schema: TableSchema,
    changes: Sequence[SchemaChange],
    *,
    time_millis: int | None = None,
    has_snapshots: bool = True,
) -> TableSchema:
    """Return the next schema after the changes, checked as a whole; raise the errors of apply_changes and
    check_options.
    """
    result = apply_changes(schema, changes, time_millis=time_millis, has_snapshots=has_snapshots)
    check_options(result, before=schema)
    return result


def _named_columns(schema: TableSchema, options: CoreOptions) -> None:
    """Check columns that Java Paimon does not check, so that a typo is reported when a table is made."""
    key = "changelog-producer.row-deduplicate-ignore-fields"
    _in_table(schema, key, options.changelog_row_deduplicate_ignored)


def _without_key(schema: TableSchema, options: CoreOptions) -> None:
    if schema.has_primary_key:
        return
    for key, needs in (
        ("changelog-producer", options.changelog_producer is not ChangelogProducer.NONE),
        ("streaming-read-overwrite", options.streaming_read_overwrite),
        ("table-read.sequence-number.enabled", options.reads_sequence_numbers),
    ):
        if needs:
            way_out = (
                "or use 'streaming-read-append-overwrite'" if key == "streaming-read-overwrite" else "or remove it"
            )
            raise InvalidOptionError(f"Option '{key}' = '{options.raw[key]}' needs a primary key; add one, {way_out}.")
    if options.bucket == POSTPONE_BUCKET:
        raise InvalidOptionError(
            f"Option '{BUCKET}' = '{POSTPONE_BUCKET}' needs a primary key; append tables take -1 or more than 0."
        )
    if options.bucket == -1 and options.full_compaction_delta_commits is not None:
        raise InvalidOptionError(
            "Option 'full-compaction.delta-commits' is for tables with a primary key or a fixed number of buckets; "
            f"set '{BUCKET}' and '{BUCKET_KEY}', or remove it."
        )


def _upsert_key(schema: TableSchema, options: CoreOptions) -> None:
    columns = options.names(_UPSERT_KEY)
    _in_table(schema, _UPSERT_KEY, columns)
    for name in columns:
        if not isinstance(schema.by_name[name].type, AtomicType):
            raise InvalidOptionError(
                f"Option '{_UPSERT_KEY}' names {name!r}, whose nested type can't be part of a key."
            )
    if columns and schema.has_primary_key:
        raise InvalidOptionError(f"Option '{_UPSERT_KEY}' is for tables without a primary key; remove one of them.")


def _buckets(schema: TableSchema, options: CoreOptions) -> None:
    written = options.text(BUCKET_KEY, "")
    if written != ",".join(options.bucket_key):
        # Paimon takes the names as written, with their blanks.
        raise InvalidOptionError(
            f"Option '{BUCKET_KEY}' = '{written}' has blanks or empty names in it; write "
            f"'{','.join(options.bucket_key)}'."
        )
    in_partition = [k for k in options.bucket_key if k in schema.partition_keys]
    if in_partition:
        raise InvalidOptionError(
            f"Option '{BUCKET_KEY}' names the partition column {in_partition[0]!r}, which is the same in a whole "
            "partition; leave it out."
        )
    function = bucket_function(options)
    keys = schema.bucket_keys
    if function is BucketFunction.MOD and options.bucket > 0:
        types = [schema.by_name[k].type for k in keys]
        if len(types) != 1 or not is_atomic(types[0], TypeRoot.INT, TypeRoot.BIGINT):
            raise InvalidOptionError(
                f"Option 'bucket-function.type' = 'mod' needs one bucket key of type INT or BIGINT, not "
                f"{', '.join(keys)}; set '{BUCKET_KEY}', or use 'default'."
            )


def _sequence(schema: TableSchema, options: CoreOptions) -> None:
    names = options.sequence_fields
    _in_table(schema, "sequence.field", names)
    for name in names:
        if options.raw.get(f"{_FIELDS}{name}{_AGGREGATE}") is not None:
            raise InvalidOptionError(
                f"The column {name!r} of 'sequence.field' keeps the greatest value; remove the option "
                f"'{_FIELDS}{name}{_AGGREGATE}'."
            )
        if names.count(name) > 1:
            raise InvalidOptionError(f"Option 'sequence.field' names the column {name!r} twice.")
    if not names:
        return
    if options.merge_engine is MergeEngine.FIRST_ROW:
        raise InvalidOptionError(
            "Tables with 'merge-engine' = 'first-row' take no 'sequence.field': the row that was written first stays."
        )
    if crosses_partitions(schema):
        raise InvalidOptionError(
            "Option 'sequence.field' needs a primary key with all partition columns "
            f"({', '.join(schema.partition_keys)}): a key that moves between partitions is replaced in any order."
        )


def _column_options(schema: TableSchema, options: CoreOptions) -> None:
    for key in options.raw:
        if not key.startswith(_FIELDS):
            continue
        # A column's name may have dots and commas; only a sequence group has several columns.
        written = key[len(_FIELDS) :].rpartition(".")[0]
        if written not in schema.by_name:
            columns = written.split(",") if key.endswith(_GROUP) else [key.split(".")[1]]
            _in_table(schema, key, [c for c in columns if c != _EVERY_FIELD])


def _groups(schema: TableSchema, options: CoreOptions) -> None:
    if not schema.has_primary_key or options.merge_engine is not MergeEngine.PARTIAL_UPDATE:
        return
    seen: dict[str, str] = {}
    for key, value in options.raw.items():
        if not (key.startswith(_FIELDS) and key.endswith(_GROUP)):
            continue
        columns = value.split(",")
        _in_table(schema, key, columns)
        for name in columns:
            if name in seen:
                raise InvalidOptionError(
                    f"The column {name!r} is in two sequence groups, or twice in one: '{seen[name]}', '{key}'."
                )
            seen[name] = key


def _aggregates(schema: TableSchema, options: CoreOptions) -> None:
    if not schema.has_primary_key or options.merge_engine not in (MergeEngine.AGGREGATION, MergeEngine.PARTIAL_UPDATE):
        return
    # Also of columns that are never aggregated, as those of the primary key.
    for name in schema.names:
        chosen = options.raw.get(f"{_FIELDS}{name}{_AGGREGATE}")
        if chosen is not None:
            check_function_name(name, chosen)


def _changelog(schema: TableSchema, options: CoreOptions) -> None:
    producer = options.changelog_producer
    if options.streaming_read_overwrite and producer in (ChangelogProducer.FULL_COMPACTION, ChangelogProducer.LOOKUP):
        raise InvalidOptionError(
            f"Option 'streaming-read-overwrite' can't be combined with 'changelog-producer' = '{producer}': the new "
            "rows of an overwrite would come twice, because the compaction after it writes them, too. Remove one of "
            "them. The rows that an overwrite takes away are in no changelog then; the table's changes(…, mode='diff') "
            "have them."
        )
    allowed = (ChangelogProducer.NONE, ChangelogProducer.LOOKUP)
    if options.merge_engine is MergeEngine.FIRST_ROW and producer not in allowed:
        raise InvalidOptionError(
            "Tables with 'merge-engine' = 'first-row' take a 'changelog-producer' of 'none' or 'lookup', not "
            f"'{producer}'."
        )


def _has_input_with_vectors(options: CoreOptions) -> bool:
    return options.deletion_vectors_enabled and options.changelog_producer is ChangelogProducer.INPUT


def _no_input_with_vectors(options: CoreOptions) -> None:
    # Java accepts this, against its documentation: reads skip level 0, but the changelog has its rows already.
    if _has_input_with_vectors(options):
        raise InvalidOptionError(
            "Option 'deletion-vectors.enabled' can't be combined with 'changelog-producer' = 'input'; use 'lookup' or "
            "'none'."
        )


def _deletion_vectors(schema: TableSchema, options: CoreOptions) -> None:
    if not options.deletion_vectors_enabled:
        return
    if options.changelog_producer is ChangelogProducer.FULL_COMPACTION:
        raise InvalidOptionError(
            "Option 'deletion-vectors.enabled' can't be combined with 'changelog-producer' = 'full-compaction'; use "
            "'lookup' or 'none'."
        )
    if options.merge_engine is MergeEngine.FIRST_ROW and not options.boolean("pk-clustering-override", False):
        raise InvalidOptionError(
            "Option 'deletion-vectors.enabled' can't be combined with 'merge-engine' = 'first-row', which deletes no "
            "older row; remove it."
        )


def _row_kinds(schema: TableSchema, options: CoreOptions) -> None:
    kind = options.rowkind_field
    if kind is not None and (kind not in schema.by_name or not is_atomic(schema.by_name[kind].type, *STRINGS)):
        raise InvalidOptionError(f"Option 'rowkind.field' names {kind!r}, which is no text column of the table.")


def _retention(schema: TableSchema, options: CoreOptions) -> None:
    for what in ("snapshot", "changelog"):
        least_key, most_key = f"{what}.num-retained.min", f"{what}.num-retained.max"
        # A changelog stays as long as the snapshots do by default.
        least = options.integer(least_key, options.snapshot_retain_min)
        most = options.integer(most_key, options.snapshot_retain_max)
        if least < 1:
            raise InvalidOptionError(f"Option '{least_key}' is {least}; at least 1 has to stay.")
        if least > most:
            raise InvalidOptionError(
                f"Option '{least_key}' is {least}, more than '{most_key}', which is {most}; set both of them."
            )
    if "partition.expiration-time" in options.raw and not schema.partition_keys:
        raise InvalidOptionError("Option 'partition.expiration-time' is for tables with partitions; remove it.")


def _record_expiry(schema: TableSchema, options: CoreOptions) -> None:
    name = options.raw.get(_TIME_FIELD)
    if name is None and "record-level.expire-time" in options.raw:
        raise InvalidOptionError(f"Option 'record-level.expire-time' needs '{_TIME_FIELD}', the column with the time.")
    if name is None:
        return
    _in_table(schema, _TIME_FIELD, [name])
    if not is_atomic(schema.by_name[name].type, *_TIME_TYPES):
        raise InvalidOptionError(f"Option '{_TIME_FIELD}' names {name!r}, which is no INT, BIGINT or TIMESTAMP.")


def _append_features(schema: TableSchema, options: CoreOptions) -> None:
    tracking = options.boolean("row-tracking.enabled", False)
    evolution = options.boolean("data-evolution.enabled", False)
    clustering = options.boolean("clustering.incremental", False)
    for key, enabled in (("row-tracking.enabled", tracking), ("clustering.incremental", clustering)):
        if enabled and schema.has_primary_key:
            raise InvalidOptionError(f"Option '{key}' is for tables without a primary key; remove it.")
    if tracking and options.bucket != -1:
        raise InvalidOptionError(f"Option 'row-tracking.enabled' needs '{BUCKET}' = '-1', not '{options.bucket}'.")
    if evolution and not tracking:
        raise InvalidOptionError("Option 'data-evolution.enabled' needs 'row-tracking.enabled' = 'true'.")
    for key, enabled in (
        ("deletion-vectors.enabled", options.deletion_vectors_enabled),
        ("clustering.incremental", clustering),
    ):
        if evolution and enabled:
            raise InvalidOptionError(f"Options 'data-evolution.enabled' and '{key}' contradict each other; set one.")
    if evolution and options.raw.get("metadata.iceberg.storage", "disabled") != "disabled":
        raise InvalidOptionError(
            "Options 'data-evolution.enabled' and 'metadata.iceberg.storage' contradict each other: a row of Iceberg "
            "is in one file. Remove one of them."
        )
    if clustering and options.bucket != -1:
        if options.boolean("bucket-append-ordered", True):
            raise InvalidOptionError(
                "Option 'clustering.incremental' reorders the rows of a bucket; set 'bucket-append-ordered' = 'false'."
            )
        if options.deletion_vectors_enabled:
            raise InvalidOptionError(
                "Options 'clustering.incremental' and 'deletion-vectors.enabled' contradict each other in tables with "
                "a fixed number of buckets; set one."
            )


def _key_clustering(schema: TableSchema, options: CoreOptions) -> None:
    override = "pk-clustering-override"
    if not options.boolean(override, False):
        return
    if not options.names("clustering.columns"):
        raise InvalidOptionError(f"Option '{override}' needs 'clustering.columns'.")
    if not options.deletion_vectors_enabled:
        raise InvalidOptionError(f"Option '{override}' needs 'deletion-vectors.enabled' = 'true'.")
    for key, contradicts in (
        ("record-level.expire-time", "record-level.expire-time" in options.raw),
        ("merge-engine", options.merge_engine not in (MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW)),
        ("sequence.field", bool(options.sequence_fields)),
        ("changelog-producer", options.changelog_producer not in (ChangelogProducer.NONE, ChangelogProducer.INPUT)),
    ):
        if contradicts:
            raise InvalidOptionError(f"Option '{override}' can't be combined with '{key}' = '{options.raw[key]}'.")


def _optimizing_order(schema: TableSchema, options: CoreOptions) -> None:
    """Check that a sort compaction can make the order that the optimizer maintains."""
    if not options.optimizing_order_by:
        if OPTIMIZING_ORDER_STRATEGY in options.raw:
            raise InvalidOptionError(
                f"Option '{OPTIMIZING_ORDER_STRATEGY}' = '{options.raw[OPTIMIZING_ORDER_STRATEGY]}' needs "
                f"'{OPTIMIZING_ORDER_BY}', the columns to sort by."
            )
        return
    # By use: few tables have an order.
    from interbed.storage.write.sort.key import SortOrder

    if schema.has_primary_key or options.bucket != -1:
        raise InvalidOptionError(
            f"Option '{OPTIMIZING_ORDER_BY}' is for append tables without buckets, whose rows may have any order; "
            "remove it."
        )
    try:
        SortOrder.of(schema, options.optimizing_order_strategy.value, options.optimizing_order_by)
    except InvalidInputError as error:
        raise InvalidOptionError(f"Option '{OPTIMIZING_ORDER_BY}' names no order: {error}") from None


def _of_catalogs(schema: TableSchema, options: CoreOptions) -> None:
    if options.boolean("auto-create", False):
        raise InvalidOptionError("Option 'auto-create' is not for tables of a catalog; remove it.")
    check_codec(options.manifest_compression, options.manifest_format)


def _in_table(schema: TableSchema, option: str, columns: Sequence[str]) -> None:
    for name in _missing(schema, columns):
        hint = f"; write {name.strip()!r}, without the blank" if name.strip() in schema.by_name else ""
        raise InvalidOptionError(f"Option '{option}' names the column {name!r}, which the table lacks{hint}.")


def _missing(schema: TableSchema, columns: Sequence[str]) -> Iterator[str]:
    return (name for name in columns if name not in schema.by_name)


_RULES: tuple[Rule, ...] = (
    _without_key,
    _upsert_key,
    _buckets,
    _column_options,
    _sequence,
    _groups,
    _aggregates,
    _changelog,
    _deletion_vectors,
    _row_kinds,
    _retention,
    _record_expiry,
    _append_features,
    _key_clustering,
    log_rule,
    _optimizing_order,
    _of_catalogs,
)
"""The rules in the order in which they are checked; the first broken rule is reported."""
