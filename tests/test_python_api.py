"""The Python API as shown in the README and the tour and as programs use it, on both kinds of catalog."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import InvalidInputError, NotSupportedError, SchemaMismatchError
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.meta.schema.change import AddColumn, DropColumn, RenameColumn
from interbed.testing import metastore
from tests.support.pages import check_command
from tests.support.waits import at_most

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
TOUR = ROOT / "docs/tour.md"

SCHEMA = pa.schema((("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64()), ("dt", pa.string())))


def rows(*values: tuple[int, str | None, float | None, str]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, v, strict=True)) for v in values], schema=SCHEMA)


def ids(table: interbed.Table, **scan: Any) -> list[int]:
    rows: Any = table.scan(columns=["id"], **scan).to_arrow()
    return sorted(rows["id"].to_pylist())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with metastore(warehouse=f"file:{tmp_path_factory.mktemp('unused')}") as uri:
        yield uri


@pytest.fixture(params=["filesystem", "hive"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[interbed.Catalog]:
    options: dict[str, object] = {"warehouse": f"file:{tmp_path}/lake"}
    if request.param == "hive":
        options |= {"metastore": "hive", "uri": request.getfixturevalue("server")}
    with interbed.load_catalog("lake", **options) as opened:
        opened.create_database("shop", ignore_if_exists=True)
        yield opened
        opened.drop_database("shop", cascade=True)


@pytest.fixture
def orders(catalog: interbed.Catalog) -> interbed.Table:
    return catalog.create_table(
        "shop.orders", SCHEMA, primary_keys=["dt", "id"], partition_keys=["dt"], options={"bucket": "4"}
    )


def test_the_python_of_the_tour_runs_as_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    section = TOUR.read_text().split("## Python", 1)[1]
    block = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert block is not None
    assert "file:/tmp/lake" in block[1]
    names: dict[str, Any] = {}
    # The last line of each statement prints its value, as in a notebook.
    exec(block[1].replace("file:/tmp/lake", f"file:{tmp_path}/lake"), names)
    table = names["table"]
    row = {"id": 1, "name": "x", "amount": 7.0, "dt": "2026-01-01", "note": None}
    assert table.scan().to_arrow().to_pylist() == [row]
    assert ids(table, snapshot_id=1) == [1, 2]
    assert [s.commit_kind.value for s in table.snapshots()] == ["APPEND", "APPEND", "APPEND", "COMPACT"]
    shown = capsys.readouterr().out
    assert "shop.orders" in shown
    assert "2026-01-01" in shown


BASE_INSTALL = """\
import re
import sys
from importlib.abc import MetaPathFinder


class Hidden(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("pandas", "polars", "duckdb", "matplotlib", "pyspark"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Hidden())
page, lake = sys.argv[1:]
blocks = re.findall(r"```python\\n(.*?)```", open(page).read(), re.DOTALL)
plain = [block.replace("file:/tmp/lake", lake) for block in blocks if "pyspark" not in block]
assert len(plain) == len(blocks) - 1
for block in plain:
    exec(block, {})
"""
"""Runs the Python of a page, without that of Spark, as if no extra were installed."""


@pytest.mark.parametrize("page", [README, TOUR], ids=lambda page: page.stem)
def test_the_snippets_of_a_page_need_no_more_than_the_base_install(page: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", BASE_INSTALL, str(page), f"file:{tmp_path}/lake"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=at_most(120), check=False)
    assert result.returncode == 0, result.stderr


def test_the_commands_of_readme_and_tour_exist() -> None:
    text = README.read_text() + TOUR.read_text()
    lines = [line for block in re.findall(r"```shell\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    commands = [line.partition("   #")[0] for line in lines if re.match("interbed (?!server)", line)]
    inline = re.findall(r"`(interbed (?:table|compact|simulate|spark) [^`]*)`", text)
    assert len(commands) >= 3
    assert inline
    for command in [*commands, *inline]:
        check_command(command)


def test_an_upsert_replaces_rows_of_its_keys(orders: interbed.Table) -> None:
    assert orders.upsert(rows((1, "x", 3.0, "a"), (2, "y", 9.5, "a"), (1, "z", 1.0, "b"))) == 1
    assert orders.upsert(rows((1, "x", 7.0, "a"), (3, "n", None, "b"))) == 2
    found = sorted(orders.scan().to_arrow().to_pylist(), key=lambda r: (r["dt"], r["id"]))
    assert [tuple(r.values()) for r in found] == [
        (1, "x", 7.0, "a"), (2, "y", 9.5, "a"), (1, "z", 1.0, "b"), (3, "n", None, "b"),
    ]  # fmt: skip
    assert orders.upsert(rows()) is None
    assert [s.id for s in orders.snapshots()] == [1, 2]


def test_the_last_of_equal_keys_wins(orders: interbed.Table) -> None:
    orders.upsert(rows((1, "first", 1.0, "a"), (1, "second", 2.0, "a")))
    assert orders.scan(columns=["name"]).to_arrow()["name"].to_pylist() == ["second"]


def test_a_stream_of_batches_is_one_commit(orders: interbed.Table) -> None:
    batches = [rows((i, "x", 1.0, "a")).to_batches()[0] for i in range(5)]
    orders.upsert(pa.RecordBatchReader.from_batches(SCHEMA, iter(batches)))
    assert ids(orders) == [0, 1, 2, 3, 4]
    assert len(orders.snapshots()) == 1


def test_a_delete_removes_the_rows_that_its_filter_selects(orders: interbed.Table) -> None:
    orders.upsert(rows(*((i, "x", float(i), "ab"[i % 2]) for i in range(20))))
    assert orders.delete("id < 10 and dt = 'a'") == 2
    assert ids(orders) == [1, 3, 5, 7, 9, *range(10, 20)]
    assert orders.delete("id = 1000") is None
    assert orders.compact(full=True).snapshot_id == 3
    assert ids(orders) == [1, 3, 5, 7, 9, *range(10, 20)]


def test_an_overwrite_replaces_one_partition_those_of_the_data_or_the_table(orders: interbed.Table) -> None:
    orders.upsert(rows((1, "x", 1.0, "a"), (2, "x", 1.0, "b"), (3, "x", 1.0, "c")))
    orders.overwrite(rows((10, "y", 1.0, "a")), partitions={"dt": "a"})
    assert ids(orders) == [2, 3, 10]
    orders.overwrite(rows((20, "y", 1.0, "b")))
    assert ids(orders) == [3, 10, 20]
    orders.overwrite(rows(), partitions={"dt": "c"})
    assert ids(orders) == [10, 20]
    orders.overwrite(rows((30, "y", 1.0, "c")), partitions={})
    assert ids(orders) == [30]
    orders.truncate()
    assert ids(orders) == []
    assert ids(orders, snapshot_id=1) == [1, 2, 3]
    with pytest.raises(InvalidInputError, match="not what is to be overwritten"):
        orders.overwrite(rows((1, "x", 1.0, "b")), partitions={"dt": "a"})


def test_a_scan_has_many_result_types(orders: interbed.Table) -> None:
    orders.upsert(rows(*((i, "xy"[i % 2], float(i), "a") for i in range(10))))
    query = orders.scan(columns=["id"], filter="amount > 5 and name = 'x'", limit=10)
    table: Any = query.to_arrow()
    assert sorted(table["id"].to_pylist()) == [6, 8]
    batches: Any = query.to_arrow_batch_reader().read_all()
    assert sorted(batches["id"].to_pylist()) == [6, 8]
    assert sorted(query.to_pandas()["id"]) == [6, 8]
    assert sorted(query.to_polars()["id"].to_list()) == [6, 8]
    assert query.to_duckdb("t").execute("select sum(id) from t").fetchall() == [(14,)]
    assert query.count() == 2
    assert query.schema.names == ["id"]
    assert orders.scan(limit=3).to_arrow().num_rows == 3
    assert orders.scan(limit=0).to_arrow().num_rows == 0
    assert orders.scan(columns=["amount", "id"]).to_arrow().schema.names == ["amount", "id"]


def test_an_explanation_shows_the_pruned_files(orders: interbed.Table) -> None:
    orders.upsert(rows((1, "x", 1.0, "a"), (2, "x", 1.0, "b")))
    everything, one = orders.explain(), orders.explain(filter="dt = 'a'")
    assert "shop.orders" in str(one)
    assert one.to_json() != everything.to_json()
    assert orders.levels().to_json()


def test_changes_carry_their_kinds(orders: interbed.Table) -> None:
    orders.upsert(rows((1, "x", 1.0, "a"), (2, "x", 1.0, "a")))
    changes = rows((1, "x", 1.0, "a"), (2, "new", 1.0, "a")).append_column("_row_kind", pa.array([3, 2], pa.int8()))
    orders.write_changes(changes)
    assert orders.scan(columns=["id", "name"]).to_arrow().to_pylist() == [{"id": 2, "name": "new"}]


def test_an_append_table_accepts_rows_without_a_key(catalog: interbed.Catalog) -> None:
    log = catalog.create_table("shop.log", SCHEMA)
    log.append(rows((1, "x", 1.0, "a"), (1, "x", 1.0, "a")))
    log.append(rows((2, "x", 1.0, "a")))
    assert ids(log) == [1, 1, 2]
    with pytest.raises(NotSupportedError, match=r"shop\.log.*append"):
        log.upsert(rows((1, "x", 1.0, "a")))
    assert log.delete("id = 1") == 3
    assert ids(log) == [2]
    log.append(rows((3, "x", 1.0, "a")))
    log.compact(full=True)
    assert ids(log) == [2, 3]


def test_tables_opened_before_and_after_a_schema_change_are_both_usable(catalog: interbed.Catalog) -> None:
    old = catalog.create_table("shop.t", SCHEMA, primary_keys=["id"], options={"bucket": "2"})
    old.upsert(rows((1, "x", 1.0, "a")))
    catalog.alter_table(
        "shop.t",
        [AddColumn("extra", AtomicType(TypeRoot.INT)), RenameColumn("name", "title"), DropColumn("amount")],
    )
    new = catalog.get_table("shop.t")
    assert (old.schema.id, new.schema.id) == (0, 1)
    assert new.arrow_schema.names == ["id", "title", "dt", "extra"]
    # Both read the rows of both, each in its own columns.
    new.upsert(pa.table({"id": [2], "title": ["y"], "dt": ["b"], "extra": [5]}))
    old.upsert(rows((3, "z", 3.0, "c")))
    assert sorted(new.scan().to_arrow().to_pylist(), key=lambda r: int(r["id"])) == [
        {"id": 1, "title": "x", "dt": "a", "extra": None},
        {"id": 2, "title": "y", "dt": "b", "extra": 5},
        {"id": 3, "title": "z", "dt": "c", "extra": None},
    ]
    assert sorted(old.scan().to_arrow().to_pylist(), key=lambda r: int(r["id"])) == [
        {"id": 1, "name": "x", "amount": 1.0, "dt": "a"},
        {"id": 2, "name": "y", "amount": None, "dt": "b"},
        {"id": 3, "name": "z", "amount": 3.0, "dt": "c"},
    ]
    assert new.scan(snapshot_id=1).to_arrow().schema.names == SCHEMA.names
    with pytest.raises(SchemaMismatchError, match="extra"):
        old.upsert(pa.table({"id": [4], "extra": [1]}))
    new.compact(full=True)
    assert ids(new) == ids(old) == [1, 2, 3]


def test_dynamic_options_open_earlier_snapshots(orders: interbed.Table) -> None:
    orders.upsert(rows((1, "x", 1.0, "a")))
    orders.upsert(rows((2, "x", 1.0, "a")))
    assert ids(orders.copy({"scan.snapshot-id": "1"})) == [1]
    assert ids(orders) == [1, 2]


def test_a_program_written_for_pypaimon_runs(tmp_path: Path) -> None:
    catalog = interbed.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("shop", False)
    schema = interbed.Schema.from_pyarrow_schema(SCHEMA, primary_keys=["id"], options={"bucket": "2"})
    catalog.create_table("shop.t", schema, False)
    table = catalog.get_table("shop.t")

    builder = table.new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(rows((1, "x", 1.0, "a"), (2, "y", 2.0, "a")))
    write.write_arrow_batch(rows((3, "z", 3.0, "a")).to_batches()[0])
    write.write_pandas(rows((4, "w", 4.0, "a")).to_pandas())
    commit.commit(write.prepare_commit())
    write.close()
    commit.close()

    read_builder = table.new_read_builder()
    predicates = read_builder.new_predicate_builder()
    read_builder = read_builder.with_filter(
        predicates.and_predicates([predicates.greater_than("amount", 1.5), predicates.is_not_null("name")])
    ).with_projection(["id", "name"])
    splits = read_builder.new_scan().plan().splits()
    read = read_builder.new_read()
    found: Any = read.to_arrow(splits)
    assert sorted(found["id"].to_pylist()) == [2, 3, 4]
    assert sorted(read.to_pandas(splits)["id"]) == [2, 3, 4]
    assert sorted(read.to_iterator(splits)) == [(2, "y"), (3, "z"), (4, "w")]
    assert read.to_duckdb(splits, "t").execute("select count(*) from t").fetchall() == [(3,)]
    parts = [read.to_arrow(read_builder.new_scan().with_shard(i, 2).plan().splits()) for i in range(2)]
    together: Any = pa.concat_tables(parts)
    assert sorted(together["id"].to_pylist()) == [2, 3, 4]

    overwrite = table.new_batch_write_builder().overwrite()
    with overwrite.new_write() as new_write, overwrite.new_commit() as new_commit:
        new_write.write_arrow(rows((9, "n", 9.0, "a")))
        new_commit.commit(new_write.prepare_commit())
    assert ids(table) == [9]


def test_a_stream_makes_each_commit_once(orders: interbed.Table) -> None:
    builder = orders.new_stream_write_builder().with_commit_user("job")
    with builder.new_write() as write, builder.new_commit() as commit:
        for number in range(3):
            write.write_arrow(rows((number, "x", 1.0, "a")))
            messages = write.prepare_commit(number)
            commit.commit(messages, number)
            # A job repeats a commit whose outcome it does not know.
            commit.commit(messages, number)
    assert [s.commit_identifier for s in orders.snapshots()] == [0, 1, 2]
    assert ids(orders) == [0, 1, 2]
    again = orders.new_stream_write_builder().with_commit_user("job")
    with again.new_write() as write, again.new_commit() as commit:
        write.write_arrow(rows((2, "other", 1.0, "a")))
        commit.commit(write.prepare_commit(2), 2)
    assert [s.commit_identifier for s in orders.snapshots()] == [0, 1, 2]
    assert orders.scan(columns=["name"], filter="id = 2").to_arrow()["name"].to_pylist() == ["x"]


def test_a_table_is_opened_by_its_location_alone(orders: interbed.Table) -> None:
    orders.upsert(rows((1, "x", 1.0, "a")))
    bare = interbed.load_table(f"file:{orders.location}")
    assert ids(bare) == [1]
    bare.upsert(rows((2, "x", 1.0, "a")))
    assert ids(orders) == [1, 2]
