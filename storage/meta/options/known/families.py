"""Which keys are meant for a table format, although no option has them: misspelt ones, and those of Paimon's families.

A key that is neither is a property of the user's own, or a note of another engine.
"""

from difflib import get_close_matches

FAMILIES: tuple[str, ...] = (
    "aggregation.",
    "batch-scan",
    "blob",
    "bucket-",
    "bucket.",
    "chain-table.",
    "changelog",
    "clustering.",
    "commit.",
    "compaction.",
    "consumer",
    "continuous.",
    "cross-partition-upsert.",
    "csv.",
    "data-evolution.",
    "data-file.",
    "deduplicate.",
    "deletion-vector",
    "dynamic-bucket.",
    "fields.",
    "file-index.",
    "file.",
    "first-row.",
    "format-table.",
    "full-compaction.",
    "global-index.",
    "incremental-",
    "json.",
    "kafka.",
    "key-value.",
    "local-sort.",
    "log.",
    "lookup",
    "lumina.",
    "manifest",
    "materialized-table.",
    "merge-engine",
    "metadata.iceberg.",
    "metadata.stats",
    "metastore.",
    "num-sorted-run.",
    "orc.",
    "parquet.",
    "partial-update.",
    "partition.",
    "pk-",
    "postpone.",
    "primary-key",
    "query-auth.",
    "read.",
    "record-level.",
    "row-tracking.",
    "scan.",
    "self-optimising.",
    "self-optimizing.",
    "sequence.",
    "sink.",
    "snapshot.",
    "sort-compaction.",
    "sort-spill-",
    "source.",
    "spill-compression",
    "stream-scan",
    "streaming-read",
    "streaming.",
    "table-read.",
    "tag.",
    "variant.",
    "vector-search.",
    "visibility-callback.",
    "write-buffer",
    "write.",
    "zorder.",
)
"""What the keys of Paimon's options begin with, and those of self-optimizing, in both spellings."""

NOTES: frozenset[str] = frozenset(
    {
        "owner",
        "comment",
        "provider",
        "location",
        "external",
        "is_managed_location",
        "connector",
        "storage_handler",
        "table_type",
        "partition.retention.period",
        "discover.partitions",
        "external.table.purge",
        "transient_lastddltime",
        "last_modified_by",
        "last_modified_time",
        "bucketing_version",
        "numfiles",
        "numrows",
        "rawdatasize",
        "totalsize",
        "createdat",
        "createdby",
        "updatedat",
        "updatedby",
        # Of catalogs: with which files a table is opened.
        "hadoop-conf-dir",
        "hive-conf-dir",
    }
)
"""Keys that Hive, Spark and Flink write on their own, in lower case."""

_NOTES_BEGIN = ("spark.", "hive.", "flink.", "interbed.", "schema.", "option.", "fs.", "s3.", "s3a.", "hadoop.", "dfs.")
_SHORTEST = 6
"""Shorter keys are near to too many words."""
_LONG = 8
"""From this length on two slips are forgiven."""
_ALIKE = 0.75


def is_note(key: str) -> bool:
    """Whether other engines write the key on their own."""
    return key.lower() in NOTES or key.lower().startswith(_NOTES_BEGIN)


def family_of(key: str) -> str | None:
    """The family in which the key stands; None for none."""
    return next((family for family in FAMILIES if key.startswith(family)), None)


def resembles(key: str, known: tuple[str, ...]) -> str | None:
    """The known key that was meant: with other signs between its words, or one or two letters amiss; None for none.

    A known key behind a name and a dot is meant as it stands there.
    """
    bare = _bare(key)
    by_bare = {_bare(k): k for k in known}
    if bare in by_bare:
        return by_bare[bare]
    if len(bare) < _SHORTEST or any(key.endswith(f".{k}") for k in known):
        return None
    slips = 2 if len(bare) >= _LONG else 1
    near = [k for k in by_bare if abs(len(k) - len(bare)) <= slips]
    return next((by_bare[k] for k in get_close_matches(bare, near, 3, _ALIKE) if _slips(bare, k) <= slips), None)


def _bare(key: str) -> str:
    return key.lower().replace(".", "").replace("-", "").replace("_", "")


def _slips(one: str, other: str) -> int:
    """How many letters are too many, missing, wrong, or swapped with the next (optimal string alignment)."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, wanted in enumerate(other, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, last = last, row
    return last[-1]
