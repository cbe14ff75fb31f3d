"""Parameters and results of Java Paimon's Spark procedures, taken from its source (paimon-spark-common).

Each procedure has its parameters, with a `*` after required ones, and the columns of its result.
"""

# Types are omitted if they are strings.
PROCEDURES: dict[str, tuple[str, str]] = {
    "clear_consumers": (
        "table*, includingConsumers, excludingConsumers",
        "result boolean",
    ),
    "compact": (
        "table*, partitions, compact_strategy, order_strategy, order_by, where, options, partition_idle_time, buckets",
        "result boolean",
    ),
    "compact_database": (
        "including_databases, including_tables, excluding_tables, options",
        "result",
    ),
    "compact_manifest": (
        "table*, options, dry_run boolean, "
        "manifest_sort_enabled boolean, manifest_sort_partition_field, manifest_sort_max_rewrite_size",
        "result boolean",
    ),
    "create_branch": (
        "table*, branch*, tag, ignoreIfExists",
        "result boolean",
    ),
    "create_tag": (
        "table*, tag*, snapshot long, time_retained",
        "result boolean",
    ),
    "create_tag_from_timestamp": (
        "table*, tag*, timestamp long, time_retained",
        "tagName, snapshot long, commit_time long, watermark",
    ),
    "delete_branch": (
        "table*, branch*",
        "result boolean",
    ),
    "delete_tag": (
        "table*, tag*",
        "result boolean",
    ),
    "expire_partitions": (
        "table*, expiration_time, timestamp_formatter, timestamp_pattern, "
        "expire_strategy, max_expires integer, options",
        "expired_partitions",
    ),
    "expire_snapshots": (
        "table*, retain_max integer, retain_min integer, older_than, max_deletes integer, options",
        "deleted_snapshots_count integer",
    ),
    "expire_tags": (
        "table*, older_than",
        "expired_tags",
    ),
    "fast_forward": (
        "table*, branch*",
        "result boolean",
    ),
    "mark_partition_done": (
        "table*, partitions*",
        "result boolean",
    ),
    "migrate_database": (
        "source_type*, database*, options, options_map map, parallelism integer",
        "result",
    ),
    "migrate_table": (
        "source_type*, table*, options, delete_origin boolean, target_table, options_map map, parallelism integer",
        "result boolean",
    ),
    "purge_files": (
        "table*",
        "result",
    ),
    "remove_orphan_files": (
        "table*, older_than, dry_run boolean, parallelism integer, mode",
        "deletedFileCount long, deletedFileTotalLenInBytes long",
    ),
    "remove_unexisting_files": (
        "table*, dry_run boolean, parallelism integer",
        "fileName",
    ),
    "rename_branch": (
        "table*, from_branch*, to_branch*",
        "result boolean",
    ),
    "rename_tag": (
        "table*, tag*, target_tag*",
        "result boolean",
    ),
    "repair": (
        "database_or_table*",
        "result boolean",
    ),
    "repair_earliest_snapshot": (
        "table*, snapshot_id long*",
        "previous_earliest_snapshot_id long, current_earliest_snapshot_id long",
    ),
    "replace_tag": (
        "table*, tag*, snapshot long, time_retained",
        "result boolean",
    ),
    "reset_consumer": (
        "table*, consumerId*, nextSnapshotId long",
        "result boolean",
    ),
    "rewrite_file_index": (
        "table*, where",
        "written_partitions integer, written_indexes integer",
    ),
    "rescale": (
        "table*, bucket_num integer, partitions, where",
        "result boolean",
    ),
    "rollback": (
        "table*, version, snapshot long, tag",
        "previous_snapshot_id long, current_snapshot_id long",
    ),
    "rollback_to_timestamp": (
        "table*, timestamp long*",
        "previous_snapshot_id long, current_snapshot_id long",
    ),
    "rollback_to_watermark": (
        "table*, watermark long*",
        "previous_snapshot_id long, current_snapshot_id long",
    ),
    "trigger_tag_automatic_creation": (
        "table*",
        "result boolean",
    ),
}
