"""Refuse options that are unknown or not supported, by name and with the way out.

New options are checked by `check_names` and `check_supported`; `judged` is for the options of existing tables, which
other engines may have made. Results are cached, because the options of a table are read often. An unknown key is
refused when it is misspelt or belongs to one of Paimon's families of options; any other key is a property of the user,
or of another engine.
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
from interbed.storage.meta.options.known.refused import REFUSED, BlockedUse, KnownOption, OptionStatus

_WITH_SECRETS = ("s3.", "s3a.", "fs.", "google.", "hadoop.", "dfs.", "metadata.iceberg.rest.")
_WAYS_OUT = {
    f"metadata.iceberg.rest.{key}": f"set the environment variable INTERBED_ICEBERG_REST_{key.upper()} for writers"
    for key in ("token", "credential")
}
_ANY = re.compile(r"<[^>]+>")


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionSupport:
    """Effects of a table's options on its use: `reading` and `writing` are reasons for a refusal, or None.

    `notes` are lines about options that are unknown, or that have no effect here.
    """

    reading: str | None
    writing: str | None
    notes: tuple[str, ...]


def _all_known() -> tuple[KnownOption, ...]:
    honoured = [key for keys in (*HONOURED.values(), OWN) for key in keys]
    return (
        *(KnownOption(key=key, status=OptionStatus.HONOURED) for key in honoured),
        *(
            KnownOption(key=key, status=OptionStatus.HARMLESS, why=why)
            for why, keys in HARMLESS.items()
            for key in keys
        ),
        *REFUSED,
    )


KNOWN: tuple[KnownOption, ...] = _all_known()
"""All options; keys with `<…>` in them are patterns."""

_BY_KEY = {option.key: option for option in KNOWN}
_PATTERNS = tuple(
    (re.compile(".+".join(map(re.escape, _ANY.split(option.key)))), option) for option in KNOWN if "<" in option.key
)
_KEYS = tuple(key for key in _BY_KEY if "<" not in key)


@lru_cache(maxsize=4096)
def known_option(key: str) -> KnownOption | None:
    """Return the option of that key; None for a key that is neither Paimon's nor interbed's."""
    exact = _BY_KEY.get(key)
    if exact is not None:
        return exact
    return next((option for pattern, option in _PATTERNS if pattern.fullmatch(key)), None)


def check_names(options: Mapping[str, str], before: Mapping[str, str] | None = None) -> None:
    """Check the keys that are new, or have other values than `before`.

    Raises InvalidOptionError for a key that is misspelt or has the prefix of one of Paimon's families without being
    known. Any other unknown key is a property of the user.
    """
    for key in _new(options, before):
        mistake = _mistake_in(key)
        if mistake is not None:
            raise InvalidOptionError(mistake)


def check_supported(
    options: Mapping[str, str], before: Mapping[str, str] | None = None, *, partitioned: bool = False
) -> None:
    """Check the options that are new, or have other values than `before`; `partitioned` says what the table is.

    Raises NotSupportedError for an option that is not supported.
    """
    for key in _new(options, before):
        option = known_option(key)
        if option is not None and option.refuses(options[key], partitioned=partitioned):
            raise NotSupportedError(_not_carried_out(option, key, options[key]))


def check_public(options: Mapping[str, str], place: str = "the table's files") -> None:
    """Raise InvalidOptionError for secrets of a file system or a catalog among options that a table is to store.

    They would be readable in its schema file, and in a metastore. `place` names the storage of other options.
    """
    for key in options:
        if key.startswith(_WITH_SECRETS) and is_secret(key):
            way_out = _WAYS_OUT.get(key, "give it to the catalog, or with each read")
            raise InvalidOptionError(f"The option '{key}' is secret and would be in the open in {place}; {way_out}.")


def judged(options: Mapping[str, str], *, partitioned: bool = False) -> OptionSupport:
    """Return the effects of the options of an existing table on its readers and writers."""
    return _judged(frozenset(options.items()), partitioned)


def is_own(key: str) -> bool:
    """Return whether the key is a property of the user: neither an option, nor misspelt, nor a note of an engine."""
    return known_option(key) is None and not is_note(key) and _mistake_in(key) is None


@lru_cache(maxsize=1024)
def _judged(options: frozenset[tuple[str, str]], partitioned: bool) -> OptionSupport:
    refusals: dict[BlockedUse, list[str]] = {blocks: [] for blocks in BlockedUse}
    notes = []
    for key, value in sorted(options):
        option = known_option(key)
        if option is not None and option.refuses(value, partitioned=partitioned):
            refusals[option.blocks].append(_not_carried_out(option, key, value))
        elif (mistake := _mistake_in(key)) is not None:
            notes.append(mistake)
    reading = next(iter(refusals[BlockedUse.READING]), None)
    writing = reading or next(iter(refusals[BlockedUse.WRITING]), None)
    return OptionSupport(
        reading=reading,
        writing=writing,
        notes=(*notes, *refusals[BlockedUse.NOTHING], *refusals[BlockedUse.WRITING]),
    )


def _new(options: Mapping[str, str], before: Mapping[str, str] | None) -> list[str]:
    return [key for key, value in options.items() if before is None or before.get(key) != value]


def _not_carried_out(option: KnownOption, key: str, value: str) -> str:
    end = f"; {option.way_out}." if option.way_out else "."
    return f"Option '{key}' = '{value}' is not supported: {option.why}{end}"


@lru_cache(maxsize=4096)
def _mistake_in(key: str) -> str | None:
    """Return the mistake in an unknown key; None for a known key, and for a property of the user."""
    if known_option(key) is not None or is_note(key):
        return None
    intended = resembles(key, _KEYS)
    if intended is not None:
        return (
            f"There is no option '{key}'. Did you mean '{intended}'? A property of your own needs a name that is less "
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
    """Return known keys, and patterns filled with the given key's own parts."""
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
"""Prefixes of the keys of Paimon's options and of self-optimizing, in both spellings."""

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
        # These are from catalogs: the files with which a table is opened.
        "hadoop-conf-dir",
        "hive-conf-dir",
    }
)
"""Keys that Hive, Spark and Flink write by themselves, in lower case."""

_NOTES_BEGIN = ("spark.", "hive.", "flink.", "interbed.", "schema.", "option.", "fs.", "s3.", "s3a.", "hadoop.", "dfs.")
_SHORTEST = 6
"""Shorter keys resemble too many words."""
_LONG = 8
"""Length from which on two mistakes are tolerated."""
_ALIKE = 0.75


def is_note(key: str) -> bool:
    """Return whether other engines write the key by themselves."""
    return key.lower() in NOTES or key.lower().startswith(_NOTES_BEGIN)


def family_of(key: str) -> str | None:
    """Return the family of the key, or None."""
    return next((family for family in FAMILIES if key.startswith(family)), None)


def resembles(key: str, known: tuple[str, ...]) -> str | None:
    """Return the known key that was intended, or None.

    It differs in the separators between its words, or in one or two letters. A known key after a name and a dot is
    taken as it is written.
    """
    bare = _bare(key)
    by_bare = {_bare(k): k for k in known}
    if bare in by_bare:
        return by_bare[bare]
    if len(bare) < _SHORTEST or any(key.endswith(f".{k}") for k in known):
        return None
    mistakes = 2 if len(bare) >= _LONG else 1
    near = [k for k in by_bare if abs(len(k) - len(bare)) <= mistakes]
    return next((by_bare[k] for k in get_close_matches(bare, near, 3, _ALIKE) if _distance(bare, k) <= mistakes), None)


def _bare(key: str) -> str:
    return key.lower().replace(".", "").replace("-", "").replace("_", "")


def _distance(one: str, other: str) -> int:
    """Return the number of extra, missing, wrong and swapped letters (optimal string alignment)."""
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
