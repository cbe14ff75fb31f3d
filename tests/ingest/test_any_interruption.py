"""Runs that are interrupted between any two steps, over random topics: tables equal those of one uninterrupted run."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interbed.ingest.tables.table_sink import TableSink
from tests.ingest.memory_source import MemorySource
from tests.ingest.shop import Event, event, job, lake, rows_of
from tests.support.examples import examples


class InterruptedRunError(Exception):
    """Interruption of a run, at a commit of one table or when positions are recorded."""


TOPICS = st.lists(
    st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["", "x", "y"])), max_size=8), max_size=2),
    min_size=1,
    max_size=2,
)
"""Topics, partitions, and for each message its table and a column beside the others."""


@given(
    topics=TOPICS,
    sizes=st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(any),
    ends=st.lists(st.integers(1, 6)),
)
@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_are_ingested_once_whatever_the_interruptions(
    topics: list[list[list[tuple[str, str]]]],
    sizes: list[int],
    ends: list[int],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    number = 0
    content: dict[str, list[list[Event]]] = {}
    wanted: dict[str, list[int]] = {"a": [], "b": []}
    for i, partitions in enumerate(topics):
        content[f"t{i}"] = []
        for messages in partitions:
            content[f"t{i}"].append([])
            for table, column in messages:
                row = {"n": number, **({column: 1} if column else {})}
                content[f"t{i}"][-1].append(event("c", None, row, table, "none"))
                wanted[table].append(number)
                number += 1
    directory: Path = tmp_path_factory.mktemp("lake")
    catalog = lake(directory)
    catalog.create_database("shop")
    for table in wanted:
        catalog.create_table(f"shop.{table}", [{"n": 1}])
    source = MemorySource(content, sizes)
    for end in ends:
        with pytest.MonkeyPatch.context() as patch:
            interrupt(patch, end)
            try:
                job(catalog, source, commit_rows=2).run()
            except InterruptedRunError:
                continue
    job(catalog, source, commit_rows=2).run()
    for table, numbers in wanted.items():
        assert [row["n"] for row in rows_of(catalog, f"shop.{table}", "n")] == numbers


def interrupt(patch: pytest.MonkeyPatch, end: int) -> None:
    """Interrupt the run before its commit or record of that number."""
    left = [end]
    for name in ("commit", "advance"):
        carry_out = getattr(TableSink, name)

        def step(sink: TableSink, *arguments: object, carry_out: object = carry_out) -> object:
            left[0] -= 1
            if left[0] <= 0:
                raise InterruptedRunError
            return carry_out(sink, *arguments)  # type: ignore[operator]

        patch.setattr(TableSink, name, step)
