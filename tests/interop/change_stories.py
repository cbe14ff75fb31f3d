"""Random tables with a primary key for Hypothesis, and what happens to them: commits of changes and compactions.

A table is a case of `merge_cases` with a changelog producer, deletion vectors, a file format, partitions, buckets and
options of compaction, as Paimon allows them together. A story's steps say who takes each of them.

Some merge functions give other rows when other runs are merged first. Which runs a compaction takes depends on the
sizes of files, which no two implementations write alike; so `BY_COUNT` makes it depend on the number of runs alone.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from hypothesis import strategies as st

from tests.interop.lsm.merge_cases import CASES, Case, changes
from tests.support.peers.json import TypeJson

Hand = Literal["interbed", "java"]
HANDS: tuple[Hand, ...] = ("interbed", "java")

FORMATS = ("parquet", "parquet", "orc", "avro")
PRODUCERS = ("none", "lookup", "full-compaction", "input")
PARTITIONS = ("x", "y")

BY_COUNT = {"compaction.size-ratio": "-100", "compaction.max-size-amplification-percent": "1000000000"}
"""No run is taken in, and no full compaction made, for its size."""

COMPACTED_ON_DEMAND = {"full-compaction.delta-commits": "1000"}
"""Full compactions only when they are asked for, as by Java's writers, which leave the others to the engines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Rows with their kinds, written by one hand."""

    by: Hand
    rows: list[list[Any]]
    kinds: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """A dedicated compaction, of all runs or of what the strategy finds due."""

    by: Hand
    full: bool


Step = Commit | Compaction


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStory:
    """A table and what happens to it; the partition, if there is one, is the last column."""

    case: Case
    options: dict[str, str]
    partitioned: bool
    steps: list[Step]

    @property
    def columns(self) -> list[tuple[str, TypeJson]]:
        """Names and types of the columns."""
        partition: list[tuple[str, TypeJson]] = [("p", "STRING NOT NULL")] if self.partitioned else []
        return [("id", "INT NOT NULL"), *((name, of) for name, of, _ in self.case.columns), *partition]

    @property
    def partition_keys(self) -> list[str]:
        """The partition column, if there is one."""
        return ["p"] if self.partitioned else []

    @property
    def primary_keys(self) -> list[str]:
        """The primary key."""
        return [*self.partition_keys, "id"]

    @property
    def producer(self) -> str:
        """The changelog producer."""
        return self.options.get("changelog-producer", "none")

    @property
    def vectors(self) -> bool:
        """Whether the table has deletion vectors."""
        return self.options.get("deletion-vectors.enabled") == "true"


@st.composite
def change_stories(draw: st.DrawFn) -> ChangeStory:
    """Any table that Paimon allows, with two to six steps."""
    case = draw(st.sampled_from(CASES))
    if len(case.columns) > 8:
        # A few functions at a time: what they do, they do one by one.
        names = [name for name, _, _ in case.columns]
        case = only(case, draw(st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True)))
    partitioned = draw(st.booleans())
    hands: Sequence[Hand] = draw(st.sampled_from([HANDS, HANDS, ("interbed",)]))
    source = draw(st.randoms(use_true_random=False))
    steps: list[Step] = []
    for number in range(draw(st.integers(2, 6))):
        by = draw(st.sampled_from(hands))
        if number and draw(st.integers(0, 2)) == 0:
            steps.append(Compaction(by=by, full=draw(st.booleans())))
        else:
            steps.append(_commit(case, source, by, draw(st.integers(1, 12)), partitioned=partitioned))
    return ChangeStory(case=case, options=draw(_options(case)), partitioned=partitioned, steps=steps)


def _commit(case: Case, source: random.Random, by: Hand, rows: int, *, partitioned: bool) -> Commit:
    drawn, kinds = changes(case, source, rows)
    if partitioned:
        drawn = [[*row, source.choice(PARTITIONS)] for row in drawn]
    return Commit(by=by, rows=drawn, kinds=kinds)


def only(case: Case, names: Sequence[str]) -> Case:
    """The case with some of its columns, and without the options of the others."""
    gone = {name for name, _, _ in case.columns} - set(names)
    return replace(
        case,
        columns=[column for column in case.columns if column[0] in names],
        options={
            key: value
            for key, value in case.options.items()
            if not (key.startswith("fields.") and key.split(".")[1] in gone)
        },
        unordered=[name for name in case.unordered if name in names],
    )


@st.composite
def _options(draw: st.DrawFn, case: Case) -> dict[str, str]:
    fixed = {k: v for k, v in case.options.items() if k not in ("changelog-producer", "deletion-vectors.enabled")}
    first_row = fixed.get("merge-engine") == "first-row"
    producers = [p for p in PRODUCERS if not first_row or p in ("none", "lookup")]
    producer = draw(st.sampled_from(producers))
    options = {**fixed, "bucket": draw(st.sampled_from(["1", "1", "2"])), "file.format": draw(st.sampled_from(FORMATS))}
    options["write-only"] = str(draw(st.booleans())).lower()
    if producer != "none":
        options["changelog-producer"] = producer
        if producer == "full-compaction":
            options |= COMPACTED_ON_DEMAND
        if producer != "input" and draw(st.booleans()):
            options["changelog-producer.row-deduplicate"] = "true"
    if producer not in ("full-compaction", "input") and not first_row and draw(st.booleans()):
        options["deletion-vectors.enabled"] = "true"
        options["deletion-vectors.bitmap64"] = str(draw(st.booleans())).lower()
    for option, values in _FREE.items():
        if option == "force-lookup" and producer == "full-compaction":
            # Java loses rows there: readers take the lowest level for the sum of all, but nothing was looked up.
            continue
        value = draw(st.sampled_from([None, None, *values]))
        if value is not None:
            options[option] = value
    # Whatever is merged first, the newest row stays, and its changelog does not wait for a size: so sizes may decide.
    sizes = case.name.startswith("deduplicate") and producer != "full-compaction" and "lookup-compact" not in options
    if sizes and draw(st.booleans()):
        options["compaction.size-ratio"] = draw(st.sampled_from(["0", "1", "100"]))
    else:
        options |= BY_COUNT
    options["num-sorted-run.compaction-trigger"] = str(draw(st.integers(2, 4)))
    return options


_FREE = {
    "target-file-size": ["1 kb"],
    "lookup-compact": ["gentle"],
    "force-lookup": ["true"],
    "compaction.force-up-level-0": ["true"],
    "compaction.force-rewrite-all-files": ["true"],
    "data-file.thin-mode": ["true"],
    "file.format.per.level": ["0:avro", "0:orc,1:avro"],
    "file-index.bitmap.columns": ["id"],
    "metadata.stats-mode": ["none", "counts"],
}
"""What may be set on any table with a primary key."""
