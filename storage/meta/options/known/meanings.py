"""Options that other code than the option properties reads: their type, default and meaning.

Values are checked by this table where a table is created or altered, and where it is opened with options;
docs/options.md is generated from it.
"""

from typing import NamedTuple


class OptionMeaning(NamedTuple):
    """Entry of an option in docs/options.md."""

    kind: str
    default: str
    text: str


_COLUMN = "of this column"

READ_ELSEWHERE: dict[str, OptionMeaning] = {
    "add-column-before-partition": OptionMeaning(
        "boolean", "false", "Whether a new column goes before the partition columns instead of behind all."
    ),
    "aggregation.remove-record-on-delete": OptionMeaning(
        "boolean", "false", "Whether a delete removes the whole row of an aggregating table."
    ),
    "alter-column-null-to-not-null.disabled": OptionMeaning(
        "boolean", "true", "Whether a column that admits nulls can't be changed to one that does not."
    ),
    "avro.codec": OptionMeaning("text", "", "Codec of Avro files; goes before `file.compression`."),
    "branch": OptionMeaning("text", "main", "The branch that is read and written; for one read or write only."),
    "bucket-function.type": OptionMeaning("default | mod", "default", "How the bucket follows from the bucket key."),
    "commit.user-prefix": OptionMeaning("text", "", "What the commit users of pypaimon's builders begin with."),
    "consumer.changelog-only": OptionMeaning(
        "boolean", "false", "Whether consumers keep changelogs only, and let snapshots expire."
    ),
    "csv.escape-character": OptionMeaning(
        "text", "\\", "The character before a quote or itself in CSV files of a format table; NUL for none."
    ),
    "csv.field-delimiter": OptionMeaning("text", ",", "The character between two fields of CSV files."),
    "csv.include-header": OptionMeaning("boolean", "false", "Whether the first line of a CSV file has the names."),
    "csv.line-delimiter": OptionMeaning("text", "a line feed", "What ends a line of CSV files."),
    "csv.mode": OptionMeaning(
        "permissive | dropmalformed | failfast",
        "permissive",
        "What a field that does not fit its column is: null, a row that is left out, or an error.",
    ),
    "csv.null-literal": OptionMeaning("text", "", "The text that is NULL in CSV files; no value has it."),
    "csv.quote-character": OptionMeaning(
        "text", '"', "The character around texts with delimiters in CSV files; NUL for none."
    ),
    "data-file.path-directory": OptionMeaning("text", "", "The directory of data files, below that of the table."),
    "deletion-vectors.modifiable": OptionMeaning(
        "boolean",
        "false",
        "Whether `deletion-vectors.enabled` may be changed in a table with rows; a full compaction has to be before it "
        "is switched on.",
    ),
    "disable-explicit-type-casting": OptionMeaning(
        "boolean", "false", "Whether a column's type is changed by Paimon's implicit casts alone."
    ),
    "kafka.<setting>": OptionMeaning(
        "text", "", "A setting of librdkafka for connections to the log: docs/log-store.md."
    ),
    "format-table.file.compression": OptionMeaning(
        "text",
        "",
        "Codec of the files of a format table, where `file.compression` is not set: `snappy` for Parquet, `zstd` for "
        "ORC and Avro, `none` for text; text files take `gzip`, `bzip2`, `zstd` and `deflate`.",
    ),
    "format-table.implementation": OptionMeaning(
        "paimon | engine", "paimon", "Which code of Spark reads a format table; interbed's is the same for both."
    ),
    "format-table.partition-path-only-value": OptionMeaning(
        "boolean", "false", "Whether directories of partitions are `2026-01-31/1` instead of `dt=2026-01-31/h=1`."
    ),
    "json.ignore-parse-errors": OptionMeaning(
        "boolean", "false", "Whether lines and values of JSON files that do not fit are left out, and null."
    ),
    "json.line-delimiter": OptionMeaning("text", "a line feed", "What ends a line of JSON files."),
    "text.line-delimiter": OptionMeaning("text", "a line feed", "What ends a line of files of the format `text`."),
    "fields.<column>.aggregate-function": OptionMeaning("text", "", f"The aggregate function {_COLUMN}."),
    "fields.<column>.count-limit": OptionMeaning(
        "integer", "", "The most elements that `nested_update` keeps in an array."
    ),
    "fields.<column>.distinct": OptionMeaning(
        "boolean", "false", "Whether `collect` and `listagg` take each value once."
    ),
    "fields.<column>.ignore-retract": OptionMeaning(
        "boolean", "false", f"Whether the aggregate {_COLUMN} ignores deletes."
    ),
    "fields.<column>.list-agg-delimiter": OptionMeaning("text", ",", "What `listagg` puts between two values."),
    "fields.<column>.nested-key": OptionMeaning(
        "list of names", "", "The key of the rows in an array of `nested_update`."
    ),
    "fields.<column>.sequence-group": OptionMeaning(
        "list of names", "", "The columns that a partial update takes if the row is newer by this column, or columns."
    ),
    "fields.<column>.stats-mode": OptionMeaning(
        "text", "metadata.stats-mode", f"Which statistics manifests keep {_COLUMN}."
    ),
    "fields.<column>.ts-field": OptionMeaning(
        "text", "", "The field with the time in values of `merge_map_with_keytime`."
    ),
    "fields.default-aggregate-function": OptionMeaning("text", "", "The aggregate function of columns that name none."),
    "file-index.<kind>.<column>.<option>": OptionMeaning("", "", "An option of one column's index."),
    "file-index.<kind>.columns": OptionMeaning(
        "list of names", "", "The columns with an index of the kind: `bloom-filter`, `bitmap`, `bsi` or `range-bitmap`."
    ),
    "data-file.external-paths.specific-fs": OptionMeaning(
        "text", "", "The scheme of the paths that the strategy `specific-fs` takes."
    ),
    "data-file.external-paths.weights": OptionMeaning(
        "list of numbers", "", "Weights of the paths for the strategy `weight-robin`, in their order."
    ),
    "index-file-in-data-file-dir": OptionMeaning("boolean", "false", "Whether index files lie beside the data files."),
    "manifest.format": OptionMeaning(
        "text", "avro", "Format of manifests: `avro`, `parquet` or `orc`; fixed once the table has files."
    ),
    "metadata.iceberg.storage": OptionMeaning(
        "disabled | table-location | hadoop-catalog | hive-catalog | rest-catalog",
        "disabled",
        "Where the table is published as an Iceberg table.",
    ),
    "metadata.iceberg.storage-location": OptionMeaning(
        "table-location | catalog-location",
        "",
        "Where Iceberg's metadata are: below the table, or beside its database; follows from the storage.",
    ),
    "metadata.iceberg.format-version": OptionMeaning(
        "integer", "2", "Version of Iceberg's format: 2, or 3, which has vectors."
    ),
    "metadata.iceberg.database": OptionMeaning(
        "text",
        "",
        "The databases of a Hive metastore or a REST catalog with the Iceberg table, semicolons between them.",
    ),
    "metadata.iceberg.table": OptionMeaning(
        "text", "", "The name of the Iceberg table in a Hive metastore or a REST catalog."
    ),
    "metadata.iceberg.rest.<…>": OptionMeaning(
        "text", "", "A property of the client of an Iceberg REST catalog: `uri`, `warehouse`, `prefix`, …"
    ),
    "metadata.iceberg.uri": OptionMeaning("text", "", "The Hive metastore in which the Iceberg table stands."),
    "metadata.iceberg.hive-conf-dir": OptionMeaning(
        "text", "", "A directory with a hive-site.xml that names the metastore."
    ),
    "metadata.iceberg.hadoop-conf-dir": OptionMeaning(
        "text", "", "A directory with a core-site.xml that names the metastore."
    ),
    "metadata.iceberg.hive-skip-update-stats": OptionMeaning(
        "boolean", "false", "Whether the metastore is asked to leave the statistics of the Iceberg table alone."
    ),
    "metadata.iceberg.glue.skip-archive": OptionMeaning(
        "boolean", "false", "Whether AWS Glue is asked to keep no older versions of the Iceberg table's entry."
    ),
    "metadata.iceberg.compaction.min.file-num": OptionMeaning(
        "integer", "10", "From how many small manifests of Iceberg's on they are merged once they are large together."
    ),
    "metadata.iceberg.compaction.max.file-num": OptionMeaning(
        "integer", "50", "From how many small manifests of Iceberg's on they are merged in any case."
    ),
    "metadata.iceberg.delete-after-commit.enabled": OptionMeaning(
        "boolean", "true", "Whether older metadata files of Iceberg's are deleted."
    ),
    "metadata.iceberg.previous-versions-max": OptionMeaning(
        "integer", "0", "How many older metadata files of Iceberg's stay."
    ),
    "metadata.iceberg.manifest-compression": OptionMeaning(
        "text", "snappy", "Codec of Iceberg's manifests and their lists."
    ),
    "metadata.iceberg.manifest-legacy-version": OptionMeaning(
        "boolean",
        "false",
        "Whether lists of Iceberg's manifests name their columns as Iceberg 1.4 did, as Athena wants it.",
    ),
    "metadata.stats-dense-store": OptionMeaning(
        "boolean", "true", "Whether manifests leave out columns without statistics altogether."
    ),
    "metadata.stats-keep-first-n-columns": OptionMeaning(
        "integer", "-1", "Of how many columns, counted from the first, manifests keep statistics; -1 for all."
    ),
    "metastore.partitioned-table": OptionMeaning(
        "boolean", "false", "Whether a Hive catalog registers the table's partitions in the metastore."
    ),
    "orc.compress": OptionMeaning("text", "", "Codec of ORC files; goes before `file.compression`."),
    "overwrite-upgrade": OptionMeaning(
        "boolean", "true", "Whether the files of an overwrite go to the highest level where they can."
    ),
    "parquet.compression": OptionMeaning("text", "", "Codec of Parquet files; goes before `file.compression`."),
    "partial-update.remove-record-on-delete": OptionMeaning(
        "boolean", "false", "Whether a delete removes the whole row of a partially updated table."
    ),
    "partial-update.remove-record-on-sequence-group": OptionMeaning(
        "list of names", "", "Sequence groups of which a delete removes the whole row."
    ),
    "partition": OptionMeaning(
        "list of names", "", "The partition columns, if the statement has no other place for them."
    ),
    "partition.mark-done-action": OptionMeaning(
        "list of success-file | done-partition | mark-event | http-report | custom",
        "success-file",
        "How partitions are marked as done. interbed carries out the first two, and refuses others.",
    ),
    "path": OptionMeaning("text", "", "Where the table lies."),
    "primary-key": OptionMeaning("list of names", "", "The primary key, if the statement has no other place for it."),
    "sink.parallelism": OptionMeaning("integer", "", "In how many tasks Spark's `sys.compact` works."),
    "sink.process-time-zone": OptionMeaning(
        "text", "", "The time zone of automatic tags by the clock; unset means the local."
    ),
    "sink.watermark-time-zone": OptionMeaning("text", "UTC", "The time zone of automatic tags by the watermark."),
    "type": OptionMeaning("text", "table", "The kind of table: `table`, `format-table` or `object-table`."),
    "write.compaction-skip": OptionMeaning("", "", "The older name of `write-only`."),
}
"""Meanings of options by key."""


_COLUMN_OPTION = "fields.<column>."
_KEPT = "bucket-function.type"
"""Option for which a table of Java Paimon may keep a value that new tables can't have."""


def kind_of(key: str) -> str | None:
    """Return the type of an option's value in the table; None for an option that is not in it."""
    found = READ_ELSEWHERE.get(key) if key != _KEPT else None
    if found is None and key.startswith("fields."):
        found = READ_ELSEWHERE.get(_COLUMN_OPTION + key.rpartition(".")[2])
    return None if found is None else found.kind
