"""Options that the code reads, found by reading every option property once; docs/options.md lists them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from interbed.catalog.client.options import CatalogOptions
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.known.harmless import HARMLESS
from interbed.storage.meta.options.known.meanings import READ_ELSEWHERE
from interbed.storage.meta.options.known.refused import REFUSED, BlockedUse
from interbed.storage.meta.options.reader import OptionReader

_E = TypeVar("_E", bound=StrEnum)

_STATES: tuple[dict[str, str], ...] = ({}, {"deletion-vectors.enabled": "true"})
"""Options under which the properties are read. Some properties read further options only when these are set."""

_DEFAULTS = {
    "num-levels": "num-sorted-run.compaction-trigger + 1",
    "num-sorted-run.stop-trigger": "num-sorted-run.compaction-trigger + 3",
    "full-compaction.delta-commits": "1 with changelog-producer full-compaction",
    "lookup-compact.max-interval": "2 × num-sorted-run.compaction-trigger",
    "changelog.num-retained.max": "snapshot.num-retained.max",
    "changelog.num-retained.min": "snapshot.num-retained.min",
    "changelog.time-retained": "snapshot.time-retained",
    "parquet.compression.codec.zstd.level": "file.compression.zstd-level",
    "orc.compression.zstd.level": "file.compression.zstd-level",
    "target-file-size": "128 mb with a primary key, 256 mb without",
    "snapshot.num-retained.max": "no limit",
}
"""Defaults that depend on other options."""

_MEANINGS = {
    "full-compaction.delta-commits": "After how many commits a full compaction is made.",
    "compaction.offpeak-ratio": "Percent that is added to `compaction.size-ratio` during the off-peak hours.",
    "compaction.offpeak.end.hour": "The hour of the day (0 to 23) at which off-peak time ends; -1 for none.",
    "compaction.offpeak.start.hour": "The hour of the day (0 to 23) at which off-peak time begins; -1 for none.",
    "deletion-vectors.merge-on-read": "Whether reads of a table with deletion vectors merge level 0, too.",
    "force-lookup": "Whether compactions look up older rows even if changelog, merge engine and vectors need none.",
    "self-optimizing.max-read-amplification": (
        "How many sorted runs a read may have to merge on average before a compaction is due; unset means any number."
    ),
    "merge-engine": "What becomes of several rows with one key.",
    "changelog-producer": "Where the changelog of a primary-key table comes from.",
    "num-levels": "Levels of the LSM tree.",
    "num-sorted-run.stop-trigger": "Number of sorted runs above which a writer waits for the compaction.",
    "partition.timestamp-formatter": "The date pattern, in Java's letters, that reads a time from the partition.",
    "partition.timestamp-pattern": "How partition columns are put together to a time, as in `$dt $hour:00:00`.",
    "read.stream.maxTriggerDelayMs": "After how many milliseconds a micro-batch may have fewer rows than the least.",
    "read.stream.minRowsPerTrigger": "The fewest rows of a micro-batch; goes with `read.stream.maxTriggerDelayMs`.",
    "scan.mode": "Where a read starts; `default` follows from the other `scan.…` options.",
    "scan.snapshot-id": "The snapshot that a read starts from.",
    "scan.tag-name": "The tag that a read starts from.",
    "scan.timestamp": "The time that a read starts from, as text in the time zone of the machine, or with an offset.",
    "scan.timestamp-millis": "The time that a read starts from, in milliseconds since the epoch.",
    "scan.version": "A snapshot id or the name of a tag that a read starts from.",
    "spill-compression": "Codec of spilled rows.",
    "target-file-size": "Bytes at which a data file is rolled.",
}
"""Meanings of options whose property is about several of them."""

_KINDS = {"scan.timestamp-millis": "integer", "self-optimizing.max-read-amplification": "number"}
"""Types that cannot be inferred from the reads."""

_BLOCKED = {
    BlockedUse.READING: " (a table that has it is neither read nor written)",
    BlockedUse.WRITING: " (a table that has it is only read)",
    BlockedUse.NOTHING: "",
}

_OPTIONAL = "optional"
_OLDER = "the older name of"


class OptionRow(NamedTuple):
    """Row of the table: one option with its type, default and meaning."""

    key: str
    kind: str
    default: str
    meaning: str


class _AskedOption(NamedTuple):
    """Option that a property has read."""

    key: str
    kind: str
    default: str


_Keys = list[_AskedOption]
_Read = tuple[_Keys, str]
"""Options that one property has read, and their meaning."""


class _NotedRaw(Mapping[str, str]):
    """Map of options that records each look-up; with `all_set` it reports every key as present."""

    def __init__(self, raw: dict[str, str], stack: list[_Keys], *, all_set: bool) -> None:
        self._raw, self._stack, self._all_set = raw, stack, all_set

    def note(self, key: str, kind: str, default: str = "") -> None:
        """Record an option for the property that is being read."""
        if self._stack:
            self._stack[-1].append(_AskedOption(key, kind, default))

    def __getitem__(self, key: str) -> str:
        if key not in self._raw:
            self.note(key, "text")
        return self._raw[key]

    def __contains__(self, key: object) -> bool:
        self.note(str(key), _OPTIONAL if self._all_set else "text")
        return self._all_set or key in self._raw

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)


def _size(number: int) -> str:
    for unit, name in ((1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb")):
        if number and number % unit == 0:
            return f"{number // unit} {name}"
    return f"{number} b"


def _span(millis: int) -> str:
    for unit, name in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if millis and millis % unit == 0:
            return f"{millis // unit} {name}"
    return f"{millis} ms"


class _NotedOptions(CoreOptions):
    """Options whose readers record key, type and default of each look-up, and return the default."""

    raw: _NotedRaw

    def text(self, key: str, default: str) -> str:
        self.raw.note(key, "text", default)
        return OptionReader.text(self, key, default)

    def integer(self, key: str, default: int) -> int:
        self.raw.note(key, "integer", str(default))
        return OptionReader.integer(self, key, default)

    def boolean(self, key: str, default: bool) -> bool:
        self.raw.note(key, "boolean", str(default).lower())
        return OptionReader.boolean(self, key, default)

    def number(self, key: str, default: float) -> float:
        self.raw.note(key, "number", str(default))
        return OptionReader.number(self, key, default)

    def optional_integer(self, key: str) -> int | None:
        self.raw.note(key, "integer")
        return None

    def optional_memory(self, key: str) -> int | None:
        self.raw.note(key, "size")
        return None

    def optional_duration_millis(self, key: str) -> int | None:
        self.raw.note(key, "duration")
        return None

    def by_level(self, key: str) -> dict[int, str]:
        self.raw.note(key, "list of level:value")
        return OptionReader.by_level(self, key)

    def memory(self, key: str, default: int) -> int:
        self.raw.note(key, "size", _size(default))
        return OptionReader.memory(self, key, default)

    def duration_millis(self, key: str, default: int) -> int:
        self.raw.note(key, "duration", _span(default) if default else "")
        return OptionReader.duration_millis(self, key, default)

    def interval_millis(self, key: str, default: int | None) -> int | None:
        self.raw.note(key, "duration", "-1" if default is None else _span(default))
        return OptionReader.interval_millis(self, key, default)

    def names(self, key: str) -> tuple[str, ...]:
        self.raw.note(key, "list of names")
        return ()

    def choice(self, key: str, default: _E) -> _E:
        self.raw.note(key, " | ".join(type(default)), str(default))
        return default

    def first(self, *keys: str) -> str:
        for key in keys[1:]:
            self.raw.note(key, f"{_OLDER} `{keys[0]}`")
        return keys[0]


class _NotedCatalogOptions(CatalogOptions):
    """Catalog options that record each look-up and return the default."""

    @property
    def _core(self) -> CoreOptions:
        return _NotedOptions(self.raw)


def _properties(owner: type) -> list[tuple[str, property]]:
    members = (item for cls in reversed(owner.__mro__) for item in vars(cls).items())
    return [(name, m) for name, m in members if isinstance(m, property) and not name.startswith("_")]


def table_options() -> list[OptionRow]:
    """Return the options of tables, sorted by name."""
    found = _rows(read for state in _STATES for read in _reads_of(CoreOptions, _NotedOptions, state))
    noted = {row.key for row in found}
    others = [OptionRow(key, *meaning) for key, meaning in READ_ELSEWHERE.items() if key not in noted]
    return sorted((*found, *others))


def harmless_options() -> list[tuple[str, str]]:
    """Return options without effect, several in a line, each with the reason."""
    return [(", ".join(f"`{key}`" for key in sorted(keys)), why) for why, keys in HARMLESS.items()]


def refused_options() -> list[tuple[str, str, str, str]]:
    """Return refused options: key, accepted values, the missing feature, and the alternative."""
    return [
        (
            f"`{option.key}`",
            ", ".join(f"`{value}`" for value in option.takes),
            option.why,
            f"{option.way_out}{_BLOCKED[option.blocks]}",
        )
        for option in sorted(REFUSED, key=lambda o: o.key)
    ]


def _reads_of(owner: type, notes: type, state: dict[str, str]) -> list[_Read]:
    """Return the look-ups of each property of the class. Look-ups through another property count for that property
    only.
    """
    found: list[_Read] = []
    stack: list[_Keys] = []

    def noted(member: property) -> property:
        def read(options: Any) -> Any:
            stack.append([])
            try:
                return member.fget(options)  # type: ignore[misc]
            finally:
                found.append((stack.pop(), _meaning(member)))

        return property(read)

    members = {name: noted(member) for name, member in _properties(owner)}
    options = type("Noted", (notes,), members)(_NotedRaw(state, stack, all_set=owner is CatalogOptions))
    for name in members:
        getattr(options, name)
    return found


def catalog_options() -> list[OptionRow]:
    """Return the options of catalogs, sorted by name."""
    return _rows(_reads_of(CatalogOptions, _NotedCatalogOptions, {}))


def _meaning(member: property) -> str:
    """Return the docstring of the property as a sentence about the option: None in Python is an unset option."""
    words = " ".join((member.__doc__ or "").split())
    words = re.sub(r"\bNone (?:for|means)\b", "unset means", words)
    return re.sub(r"\bNone (when|leaves)\b", r"unset \1", words).rstrip(".") + "."


def _rows(reads: Iterable[_Read]) -> list[OptionRow]:
    """Return a row for each option, with the meaning of the property that reads the fewest other options."""
    best: dict[str, tuple[tuple[int, int, bool], OptionRow]] = {}
    for asked, meaning in reads:
        optional = {a.key for a in asked if a.kind == _OPTIONAL}
        for key, kind, default in asked:
            if kind == _OPTIONAL:
                continue
            shown = "" if key in optional else _DEFAULTS.get(key, default)
            if kind.startswith(_OLDER):
                row = OptionRow(key, "", "", f"{kind[0].upper()}{kind[1:]}.")
            else:
                row = OptionRow(key, _KINDS.get(key, kind), shown, _MEANINGS.get(key, meaning))
            weight = (len({a.key for a in asked}), int(kind == "text" and not default), bool(key in optional))
            if key not in best or weight < best[key][0]:
                best[key] = (weight, row)
    return [row for _, (_, row) in sorted(best.items())]
