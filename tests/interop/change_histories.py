"""Random histories of tables with a primary key for Hypothesis: commits of changes, and compactions.

A table is a case of `merge_cases` with a changelog producer, deletion vectors, a file format, partitions, buckets and
options of compaction, in combinations that Paimon allows. Each step of a history names the implementation that does it.

Some merge functions give other rows when other runs are merged first. The runs that a compaction selects depend on file
sizes, which differ between implementations; `BY_COUNT` makes the selection depend on the number of runs alone.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from hypothesis import strategies as st

from tests.interop.lsm.merge_cases import CASES, MergeCase, changes
from tests.support.peers.json import TypeJson

Implementation = Literal["interbed", "java"]
HANDS: tuple[Implementation, ...] = ("interbed", "java")

FORMATS = ("parquet", "parquet", "orc", "avro")
PRODUCERS = ("none", "lookup", "full-compaction", "input")
PARTITIONS = ("x", "y")

BY_COUNT = {"compaction.size-ratio": "-100", "compaction.max-size-amplification-percent": "1000000000"}
"""Sizes neither add runs to a compaction nor cause a full one."""

COMPACTED_ON_DEMAND = {"full-compaction.delta-commits": "1000"}
"""Full compactions only on request, as by Java's writers, which leave the others to the engines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitStep:
    """Rows with their kinds, written in one commit by one implementation."""

    by: Implementation
    rows: list[list[Any]]
    kinds: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStep:
    """A dedicated compaction: of all runs, or of those that the strategy selects."""

    by: Implementation
    full: bool


Step = CommitStep | CompactionStep


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeHistory:
    """A table and its steps; the partition column, if there is one, is the last column."""

    case: MergeCase
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
        """Columns of the primary key."""
        return [*self.partition_keys, "id"]

    @property
    def producer(self) -> str:
        """The changelog producer option."""
        return self.options.get("changelog-producer", "none")

    @property
    def vectors(self) -> bool:
        """Whether the table has deletion vectors."""
        return self.options.get("deletion-vectors.enabled") == "true"


@st.composite
def change_histories(draw: st.DrawFn) -> ChangeHistory:
    """Generate any table that Paimon allows, with two to six steps."""
    case = draw(st.sampled_from(CASES))
    if len(case.columns) > 8:
        # Only a few functions at a time: they are independent of each other.
        names = [name for name, _, _ in case.columns]
        case = only(case, draw(st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True)))
    partitioned = draw(st.booleans())
    hands: Sequence[Implementation] = draw(st.sampled_from([HANDS, HANDS, ("interbed",)]))
    source = draw(st.randoms(use_true_random=False))
    steps: list[Step] = []
    for number in range(draw(st.integers(2, 6))):
        by = draw(st.sampled_from(hands))
        if number and draw(st.integers(0, 2)) == 0:
            steps.append(CompactionStep(by=by, full=draw(st.booleans())))
        else:
            steps.append(_commit(case, source, by, draw(st.integers(1, 12)), partitioned=partitioned))
    return ChangeHistory(case=case, options=draw(_options(case)), partitioned=partitioned, steps=steps)


def _commit(case: MergeCase, source: random.Random, by: Implementation, rows: int, *, partitioned: bool) -> CommitStep:
    drawn, kinds = changes(case, source, rows)
    if partitioned:
        drawn = [[*row, source.choice(PARTITIONS)] for row in drawn]
    return CommitStep(by=by, rows=drawn, kinds=kinds)


def only(case: MergeCase, names: Sequence[str]) -> MergeCase:
    """Return the case with some of its columns, without the options of the others."""
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
def _options(draw: st.DrawFn, case: MergeCase) -> dict[str, str]:
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
            # Java loses rows there: its readers take the lowest level for the merged row, but nothing was looked up.
            continue
        value = draw(st.sampled_from([None, None, *values]))
        if value is not None:
            options[option] = value
    # The newest row is kept in any order of merging, and its changelog does not depend on a size: so sizes may decide.
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
"""Options that are valid for any table with a primary key."""
