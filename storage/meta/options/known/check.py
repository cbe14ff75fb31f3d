"""Refuse options that are unknown or not carried out, by name and with the way out.

New options are checked by `check_names` and `check_supported`; `judged` is for the options of existing tables, which
other engines may have made. Results are cached: the options of a table are looked at often. A key that no option has is
refused when it is misspelt or belongs to one of Paimon's families of options; any other key is a property of the user's
own, or of another engine.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache

from interbed.storage.base.errors import InvalidOptionError, NotSupportedError
from interbed.storage.base.shown_text import did_you_mean, is_secret
from interbed.storage.meta.options.known.harmless import HARMLESS
from interbed.storage.meta.options.known.honoured import HONOURED, OWN
from interbed.storage.meta.options.known.refused import REFUSED, Blocks, KnownOption, Standing

_OF_STORES = ("s3.", "s3a.", "fs.", "google.", "hadoop.", "dfs.")
_ANY = re.compile(r"<[^>]+>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a table's options mean for whoever uses it: `reading` and `writing` say why they are refused, None for not.

    `notes` are lines about options that are unknown, or that have no effect here.
    """

    reading: str | None
    writing: str | None
    notes: tuple[str, ...]


def _all_known() -> tuple[KnownOption, ...]:
    honoured = [key for keys in (*HONOURED.values(), OWN) for key in keys]
    return (
        *(KnownOption(key=key, standing=Standing.HONOURED) for key in honoured),
        *(KnownOption(key=key, standing=Standing.HARMLESS, why=why) for why, keys in HARMLESS.items() for key in keys),
        *REFUSED,
    )


KNOWN: tuple[KnownOption, ...] = _all_known()
"""All options; keys with `<…>` in them stand for many."""

_BY_KEY = {option.key: option for option in KNOWN}
_PATTERNS = tuple(
    (re.compile(".+".join(map(re.escape, _ANY.split(option.key)))), option) for option in KNOWN if "<" in option.key
)
_KEYS = tuple(key for key in _BY_KEY if "<" not in key)


@lru_cache(maxsize=4096)
def known_option(key: str) -> KnownOption | None:
    """The option of that key; None for a key that is none of Paimon's or interbed's."""
    exact = _BY_KEY.get(key)
    if exact is not None:
        return exact
    return next((option for pattern, option in _PATTERNS if pattern.fullmatch(key)), None)


def check_names(options: Mapping[str, str], before: Mapping[str, str] | None = None) -> None:
    """Check the keys that are new, or have other values than `before`.

    Raises InvalidOptionError for a key that is misspelt or stands in one of Paimon's families without being known. Any
    other key that is not known is the user's own.
    """
    for key in _new(options, before):
        slip = _slip(key)
        if slip is not None:
            raise InvalidOptionError(slip)


def check_supported(options: Mapping[str, str], before: Mapping[str, str] | None = None) -> None:
    """Check the options that are new, or have other values than `before`.

    Raises NotSupportedError for one that is not carried out.
    """
    for key in _new(options, before):
        option = known_option(key)
        if option is not None and option.refuses(options[key]):
            raise NotSupportedError(_not_carried_out(option, key, options[key]))


def check_public(options: Mapping[str, str], place: str = "the table's files") -> None:
    """Raise InvalidOptionError for what opens a store and is secret, among options that a table is to keep: they are in
    the open in its schema file, and in a metastore. `place` is where else others are to be kept.
    """
    for key in options:
        if key.startswith(_OF_STORES) and is_secret(key):
            raise InvalidOptionError(
                f"The option '{key}' is secret and would be in the open in {place}; give it to the catalog, or with "
                "each read."
            )


def judged(options: Mapping[str, str]) -> Judgement:
    """What the options of a table that is there mean for its readers and writers."""
    return _judged(frozenset(options.items()))


def is_own(key: str) -> bool:
    """Whether the key is a property of the user's own: no option, no slip, no note of an engine."""
    return known_option(key) is None and not is_note(key) and _slip(key) is None


@lru_cache(maxsize=1024)
def _judged(options: frozenset[tuple[str, str]]) -> Judgement:
    refusals: dict[Blocks, list[str]] = {blocks: [] for blocks in Blocks}
    notes = []
    for key, value in sorted(options):
        option = known_option(key)
        if option is not None and option.refuses(value):
            refusals[option.blocks].append(_not_carried_out(option, key, value))
        elif (slip := _slip(key)) is not None:
            notes.append(slip)
    reading = next(iter(refusals[Blocks.READING]), None)
    writing = reading or next(iter(refusals[Blocks.WRITING]), None)
    return Judgement(
        reading=reading,
        writing=writing,
        notes=(*notes, *refusals[Blocks.NOTHING], *refusals[Blocks.WRITING]),
    )


def _new(options: Mapping[str, str], before: Mapping[str, str] | None) -> list[str]:
    return [key for key, value in options.items() if before is None or before.get(key) != value]


def _not_carried_out(option: KnownOption, key: str, value: str) -> str:
    end = f"; {option.way_out}." if option.way_out else "."
    return f"Option '{key}' = '{value}' is not supported: {option.why}{end}"


@lru_cache(maxsize=4096)
def _slip(key: str) -> str | None:
    """What is wrong with a key that is not known; None for a known one, or one that is nobody's but the user's."""
    if known_option(key) is not None or is_note(key):
        return None
    meant = resembles(key, _KEYS)
    if meant is not None:
        return (
            f"There is no option '{key}'. Did you mean '{meant}'? A property of your own needs a name that is less "
            "like it."
        )
    family = family_of(key)
    if family is None:
        return None
    return (
        f"There is no option '{key}'.{did_you_mean(key, _candidates(key))} Names that begin with '{family}' are for "
        "options of the table format; give a property of your own another one."
    )


def _candidates(key: str) -> tuple[str, ...]:
    """Known keys, and those with parts of any text with this key's own parts in them."""
    parts = key.split(".")
    filled = []
    for option in _BY_KEY.values():
        wanted = option.key.split(".")
        if "<" in option.key and len(wanted) == len(parts):
            filled.append(".".join(own if "<" in part else part for part, own in zip(wanted, parts, strict=True)))
    return (*_KEYS, *filled)


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
