"""Rules for combinations of the options of a table's log with others; `option_rules` checks them with its own. Pure."""

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.meta.options.core import BUCKET, CoreOptions
from interbed.storage.meta.options.log import (
    CHANGE_TRACKING,
    LOG_CHANGELOG_MODE,
    LOG_CONSISTENCY,
    LOG_FORMAT,
    LOG_SYSTEM,
    LogChangelogMode,
    LogConsistency,
    LogSystem,
)
from interbed.storage.meta.options.lsm import ChangelogProducer, MergeEngine
from interbed.storage.meta.schema.table_schema import TableSchema


def log_rule(schema: TableSchema, options: CoreOptions) -> None:
    """Check the options that a log needs, and those that can't be combined with it."""
    eventual = options.log_consistency is LogConsistency.EVENTUAL
    if options.log_system is LogSystem.NONE:
        for key, needs_log in (
            (LOG_CONSISTENCY, eventual),
            (LOG_CHANGELOG_MODE, options.log_changelog_mode is LogChangelogMode.UPSERT),
        ):
            if needs_log:
                raise InvalidOptionError(
                    f"Option '{key}' = '{options.raw[key]}' needs a log; set '{LOG_SYSTEM}' = '{LogSystem.KAFKA}'."
                )
        return
    # By use: few tables have a log.
    from interbed.storage.log.json_text import first_unwritable
    from interbed.storage.log.kafka import LogSettings

    if not options.tracks_changes:
        raise InvalidOptionError(
            f"Options '{LOG_SYSTEM}' = '{options.log_system}' and '{CHANGE_TRACKING}' = 'false' contradict each other; "
            "remove one of them."
        )
    if options.bucket < 1:
        raise InvalidOptionError(
            f"Option '{LOG_SYSTEM}' = '{options.log_system}' needs a fixed number of buckets, as many as its topic has "
            f"partitions; set '{BUCKET}' to 1 or more, not {options.bucket}."
        )
    if eventual:
        _eventual_log(schema, options)
    elif options.log_changelog_mode is LogChangelogMode.UPSERT:
        raise InvalidOptionError(
            f"Option '{LOG_CHANGELOG_MODE}' = 'upsert' can't be combined with '{LOG_CONSISTENCY}' = 'transactional', "
            "whose readers get each change with the row before it; use 'all', or 'log.consistency' = 'eventual'."
        )
    unwritable = first_unwritable(schema.fields)
    if unwritable is not None:
        raise InvalidOptionError(
            f"Option '{LOG_FORMAT}' = '{options.log_format}' has no form for {unwritable}, whose keys are no texts; "
            f"change the column, or set '{LOG_SYSTEM}' = 'none'."
        )
    LogSettings.of(options)


def log_of(options: CoreOptions) -> tuple[object, ...]:
    """Return where the log of a table is, for comparisons: its system and the settings of Kafka."""
    return options.log_system, options.kafka_settings


def _eventual_log(schema: TableSchema, options: CoreOptions) -> None:
    asked = f"Option '{LOG_CONSISTENCY}' = 'eventual'"
    if not schema.has_primary_key:
        raise InvalidOptionError(f"{asked} needs a primary key, by which readers identify rows; add one.")
    if options.merge_engine is not MergeEngine.DEDUPLICATE:
        raise InvalidOptionError(
            f"{asked} can't be combined with 'merge-engine' = '{options.merge_engine}': the last record of a key is to "
            "be its row. Use 'deduplicate', or 'log.consistency' = 'transactional'."
        )
    if options.log_changelog_mode is LogChangelogMode.ALL:
        raise InvalidOptionError(
            f"{asked} can't be combined with '{LOG_CHANGELOG_MODE}' = 'all': what is written comes without the rows "
            "before it. Use 'upsert' or 'auto'."
        )
    for key, is_set, why in (
        ("sequence.field", bool(options.sequence_fields), "the last record of a key is to be its row"),
        ("ignore-delete", options.ignore_delete, "the log reports every deleted key"),
        ("record-level.expire-time", options.record_expire_millis is not None, "rows expire without a record"),
        ("deletion-vectors.enabled", options.deletion_vectors_enabled, "readers see rows before they are compacted"),
        (
            "changelog-producer",
            options.changelog_producer in (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION),
            "readers see rows before they are compacted, and make the changelog themselves",
        ),
    ):
        if is_set:
            raise InvalidOptionError(
                f"{asked} can't be combined with '{key}': {why}. Remove it, or use 'log.consistency' = 'transactional'."
            )
