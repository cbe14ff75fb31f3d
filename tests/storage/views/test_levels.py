"""The LSM tree as a view: its figures, its drawing in the terminal, and the axis of keys."""

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

import interbed
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.shown_text import age_text, size_text
from interbed.storage.views.level_drawing import BucketTree, LevelsDrawing, TreeFile, TreeRun, most_runs
from interbed.storage.views.levels import TableLevels, levels_of


def table_of(warehouse: Path, key: pa.DataType, **options: str) -> interbed.Table:
    """An empty table `shop.orders` of one bucket with the given type of key."""
    catalog = interbed.load_catalog(warehouse=warehouse)
    catalog.create_database("shop")
    schema = pa.schema([("id", key), ("amount", pa.int64())])
    return catalog.create_table("shop.orders", schema, primary_keys=["id"], options={"bucket": "1", **options})


def tree(*runs: tuple[int, list[tuple[float, float]]], bucket: int = 0, trigger: int = 5, stop: int = 8) -> BucketTree:
    """A bucket of (level, ranges of files) runs. A file has ten records of 100 bytes, and is an hour old at 3600 s."""
    return BucketTree(
        partition="dt=a",
        bucket=bucket,
        runs=tuple(
            TreeRun(
                level=level,
                files=tuple(
                    TreeFile(
                        name=f"{level}-{i}",
                        bytes=1000,
                        rows=10,
                        deletes=0,
                        least_key="1",
                        greatest_key="9",
                        start=start,
                        end=end,
                        created_millis=0,
                    )
                    for i, (start, end) in enumerate(files)
                ),
            )
            for level, files in runs
        ),
        max_level=5,
        compaction_trigger=trigger,
        stop_trigger=stop,
        keys="id",
        least_key="1",
        greatest_key="9",
    )


def printed(drawing: LevelsDrawing, width: int = 60) -> list[str]:
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(drawing)
    return [line.rstrip() for line in capture.get().splitlines()]


def test_a_tree_is_drawn_run_by_run_with_files_at_the_places_of_their_keys() -> None:
    drawn = tree((0, [(0.5, 1.0)]), (5, [(0.0, 0.25), (0.25, 0.5), (0.9, 1.0)]))
    lines = printed(LevelsDrawing(title="shop.orders, snapshot 2", trees=(drawn,), now_millis=3_600_000))
    assert lines == [
        "shop.orders, snapshot 2",
        "",
        "dt=a bucket 0   40 records, 3.9 KiB",
        "sorted runs ■■□□│□□□□┃ 2, in shape (compaction from 5,",
        "writers wait above 8)",
        " level     records       size      age  id: 1              9",
        "     0          10     1000 B   60 min            ██████████",
        "     5          30    2.9 KiB   60 min  █████▒▒▒▒▒        ██",
    ]


@pytest.mark.parametrize(
    ("runs", "state", "gauge"),
    [
        (1, "in shape", "■□│□□┃"),
        (2, "in shape", "■■│□□┃"),
        (3, "compaction due", "■■│■□┃"),
        (4, "compaction due", "■■│■■┃"),
        (5, "writers wait", "■■│■■┃■"),
    ],
)
def test_the_gauge_compares_sorted_runs_with_the_triggers(runs: int, state: str, gauge: str) -> None:
    drawn = tree(*[(0, [(0.0, 1.0)])] * runs, trigger=3, stop=4)
    assert (drawn.state, drawn.gauge) == (state, gauge)


def test_a_gauge_of_too_many_runs_is_omitted() -> None:
    assert tree((0, [(0.0, 1.0)]), stop=2**31 - 1).gauge == ""


def test_the_buckets_with_the_most_runs_are_drawn_in_bucket_order() -> None:
    trees = [tree(*[(0, [(0.0, 1.0)])] * runs, bucket=b) for b, runs in enumerate([1, 4, 2, 3])]
    assert [t.bucket for t in most_runs(trees, 2)] == [1, 3]
    view = TableLevels(table="t", snapshot_id=1, levels=(), trees=tuple(trees) * 4)
    assert len(view.drawing().trees) == 8
    assert view.drawing().left_out == 8
    assert "8 more bucket(s)" in printed(view.drawing())[-1]
    assert len(view.drawing(all_buckets=True).trees) == 16


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_drawing_fits_into_the_terminal(width: int) -> None:
    drawn = tree((0, [(0.0, 0.0), (1.0, 1.0)]), (4, [(0.0, 1.0)]))
    for line in printed(LevelsDrawing(title="t", trees=(drawn,), now_millis=0), width):
        assert len(line) <= width


def test_numeric_keys_are_laid_out_to_scale(tmp_path: Path) -> None:
    table = table_of(tmp_path, pa.int64())
    table.upsert(pa.table({"id": [0, 100], "amount": [1, 1]}))
    table.upsert(pa.table({"id": [10, 75], "amount": [1, 1]}))
    [found] = table.levels().trees
    assert [(f.start, f.end) for r in found.runs for f in r.files] == [(0.1, 0.75), (0.0, 1.0)]
    assert (found.keys, found.least_key, found.greatest_key) == ("id", "0", "100")


@pytest.mark.parametrize(
    ("kind", "values", "places"),
    [
        (pa.date32(), [date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 5)], [0.25, 0.25]),
        (pa.timestamp("ms"), [datetime(2026, 1, 1), datetime(2026, 1, 2), datetime(2026, 1, 3)], [0.5, 0.5]),
        (pa.string(), ["a", "b", "zzzz"], [0.5, 0.5]),
        (pa.float64(), [0.0, 1.0, 8.0], [0.125, 0.125]),
        (pa.float64(), [0.0, 1.0, float("inf")], [0.5, 0.5]),
    ],
)
def test_keys_of_any_type_have_a_position_on_the_axis(
    tmp_path: Path, kind: pa.DataType, values: list[object], places: list[float]
) -> None:
    table = table_of(tmp_path, kind)
    table.upsert(pa.table({"id": pa.array([values[0], values[2]], kind), "amount": [1, 1]}))
    table.upsert(pa.table({"id": pa.array([values[1]], kind), "amount": [1]}))
    [found] = table.levels().trees
    newest = found.runs[0].files[0]
    assert [newest.start, newest.end] == places


def test_one_key_alone_fills_the_axis(tmp_path: Path) -> None:
    table = table_of(tmp_path, pa.int64())
    table.upsert(pa.table({"id": [7], "amount": [1]}))
    [found] = table.levels().trees
    assert [(f.start, f.end) for r in found.runs for f in r.files] == [(0.0, 1.0)]


def test_ages_follow_the_local_clock(tmp_path: Path) -> None:
    table = table_of(tmp_path, pa.int64())
    before = datetime.now().replace(tzinfo=UTC).timestamp() * 1000
    table.upsert(pa.table({"id": [7], "amount": [1]}))
    levels = table.levels()
    created = levels.trees[0].runs[0].created_millis
    assert before - 1 <= created <= levels.seen_millis
    later = levels_of(table.store, name="t", clock=lambda: created + 7_200_000)
    assert any("2 h" in line for line in printed(later.drawing(), 120))


def test_levels_can_be_limited_to_a_partition_and_a_bucket(tmp_path: Path) -> None:
    catalog = interbed.load_catalog(warehouse=tmp_path)
    catalog.create_database("shop")
    schema = pa.schema((("id", pa.int64()), ("dt", pa.string())))
    table = catalog.create_table(
        "shop.orders", schema, primary_keys=["dt", "id"], partition_keys=["dt"], options={"bucket": "2"}
    )
    table.upsert(pa.table({"id": list(range(20)), "dt": ["a", "b"] * 10}))
    assert [(t.partition, t.bucket) for t in table.levels().trees] == [
        ("dt=a", 0),
        ("dt=a", 1),
        ("dt=b", 0),
        ("dt=b", 1),
    ]
    some = table.levels(partitions={"dt": "b"}, bucket=1)
    assert [t.name for t in some.trees] == ["dt=b bucket 1"]
    assert [(s.partition, s.bucket) for s in some.levels] == [("dt=b", 1)]
    with pytest.raises(InvalidInputError, match="colour"):
        table.levels(partitions={"colour": "red"})


def test_the_json_lists_every_file(tmp_path: Path) -> None:
    table = table_of(tmp_path, pa.string())
    table.upsert(pa.table({"id": ["x" * 50, "b"], "amount": [1, 2]}))
    shown = json.loads(json.dumps(table.levels().to_json()))
    [bucket] = shown["buckets"]
    assert (bucket["bucket"], bucket["maxLevel"], bucket["compactionTrigger"], bucket["stopTrigger"]) == (0, 5, 5, 8)
    [run] = bucket["runs"]
    [file] = run["files"]
    assert (run["level"], file["rows"], file["deletes"], file["minKey"]) == (0, 2, 0, "b")
    assert file["maxKey"] == "x" * 31 + "…"
    assert datetime.fromisoformat(file["created"]).tzinfo is None


def test_a_table_without_a_tree_has_only_figures(tmp_path: Path) -> None:
    catalog = interbed.load_catalog(warehouse=tmp_path)
    catalog.create_database("shop")
    table = catalog.create_table("shop.log", pa.schema([("id", pa.int64())]))
    assert "no snapshot" in str(table.levels())
    table.append(pa.table({"id": [1]}))
    levels = table.levels()
    assert (len(levels.levels), levels.trees) == (1, ())
    assert "shop.log, snapshot 1" in str(levels)
    with pytest.raises(InvalidInputError, match="nothing to draw"):
        levels.plot(tmp_path / "levels.svg")


def test_sizes_and_ages_have_suitable_units() -> None:
    assert [size_text(n) for n in (0, 1023, 1536, 5 << 20, 3 << 30, 2 << 40)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "5.0 MiB",
        "3.0 GiB",
        "2.0 TiB",
    ]
    hour = 3_600_000
    assert [age_text(n) for n in (-5, 999, 90_000, 150_000, hour, 2 * hour, 47 * hour, 49 * hour)] == [
        "0 s",
        "0 s",
        "90 s",
        "2 min",
        "60 min",
        "2 h",
        "47 h",
        "2 d",
    ]
