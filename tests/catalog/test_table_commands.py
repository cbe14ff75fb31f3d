"""Commands for tables, run as by a program: levels, changes, compact, simulate."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import interbed
from interbed.catalog.client.table_compaction import CompactionScope, TablePatterns, compact_tables, tables_meant
from interbed.cli import main
from interbed.storage.base.errors import InvalidInputError

SCHEMA = pa.schema((("id", pa.int64()), ("amount", pa.float64()), ("dt", pa.string())))


@pytest.fixture
def catalog(tmp_path: Path) -> interbed.Catalog:
    """Create the databases `shop` and `test` with tables of two snapshots that were not compacted."""
    catalog = interbed.load_catalog(warehouse=tmp_path / "lake")
    for name in ("shop.orders", "shop.items", "shop.tmp_1", "test.orders"):
        database = name.split(".")[0]
        catalog.create_database(database, ignore_if_exists=True)
        table = catalog.create_table(
            name, SCHEMA, primary_keys=["dt", "id"], partition_keys=["dt"], options={"bucket": "1"}
        )
        table.upsert(pa.table({"id": [1, 2, 3], "amount": [1.0, 2.0, 3.0], "dt": ["a", "a", "b"]}))
        table.upsert(pa.table({"id": [1], "amount": [9.0], "dt": ["a"]}))
    return catalog


def run(catalog: interbed.Catalog, command: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, [command, "-o", f"warehouse={catalog.warehouse}", *arguments])


def compacted(catalog: interbed.Catalog) -> set[str]:
    """Return the tables whose newest snapshot is a compaction."""
    names = [f"{d}.{t}" for d in catalog.list_databases() for t in catalog.list_tables(d)]
    kinds = {name: catalog.get_table(name).snapshots()[-1].commit_kind.value for name in names}
    return {name for name, kind in kinds.items() if kind == "COMPACT"}


def test_the_levels_of_a_bucket_are_drawn(catalog: interbed.Catalog, tmp_path: Path) -> None:
    shown = run(catalog, "table", "levels", "shop.orders", "-p", "dt=a", "--plot", str(tmp_path / "levels.svg"))
    assert shown.exit_code == 0, shown.output
    assert "dt=a bucket 0" in shown.output
    assert "dt=b" not in shown.output
    assert "■■" in shown.output
    assert (tmp_path / "levels.svg").exists()
    summary = run(catalog, "table", "levels", "shop.orders", "--summary")
    assert "sorted runs" in summary.output
    assert "■" not in summary.output


def test_an_unsupported_image_format_is_refused_before_anything_is_done(catalog: interbed.Catalog) -> None:
    result = run(catalog, "table", "levels", "shop.orders", "--plot", "levels.jpg")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "levels.jpg" in result.output


def test_changes_are_printed_as_text_and_as_json(catalog: interbed.Catalog) -> None:
    shown = run(catalog, "table", "changes", "shop.orders", "--from", "2")
    assert shown.exit_code == 0, shown.output
    assert "+I" in shown.output
    assert "9.0" in shown.output
    lines = run(catalog, "table", "changes", "shop.orders", "--json", "--filter", "dt = 'a'").output.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"_row_kind": "+I", "id": 1, "amount": 1.0, "dt": "a"},
        {"_row_kind": "+I", "id": 2, "amount": 2.0, "dt": "a"},
        {"_row_kind": "+I", "id": 1, "amount": 9.0, "dt": "a"},
    ]
    few = run(catalog, "table", "changes", "shop.orders", "--limit", "2", "--column", "id")
    assert "only the first 2 rows" in few.output
    assert "amount" not in few.output
    assert run(catalog, "table", "changes", "shop.orders", "--filter", "id = 77").output == "no changes\n"


def test_values_without_a_json_type_are_printed_as_text(tmp_path: Path) -> None:
    catalog = interbed.load_catalog(warehouse=tmp_path)
    catalog.create_database("shop")
    schema = pa.schema((("id", pa.int64()), ("b", pa.binary()), ("d", pa.decimal128(5, 2)), ("n", pa.string())))
    table = catalog.create_table("shop.t", schema, primary_keys=["id"], options={"bucket": "1"})
    table.upsert(pa.Table.from_pylist([{"id": 1, "b": b"ab", "d": 1, "n": None}], schema=schema))
    [line] = run(catalog, "table", "changes", "shop.t", "--json").output.splitlines()
    assert json.loads(line) == {"_row_kind": "+I", "id": 1, "b": "YWI=", "d": "1.00", "n": None}


def test_a_row_is_found_by_its_key(catalog: interbed.Catalog) -> None:
    found = run(catalog, "table", "get", "shop.orders", "id=1", "dt=a")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout) == {"id": 1, "amount": 9.0, "dt": "a"}
    for key, code, message in [
        (["id=7", "dt=a"], 1, "no row id=7, dt=a"),
        (["id=one", "dt=a"], 1, "one"),
        (["id=1"], 1, "dt"),
        (["id=1", "dt=a", "colour=red"], 1, "colour"),
        (["id"], 2, "COLUMN=VALUE"),
        ([], 2, "COLUMN=VALUE"),
    ]:
        wrong = run(catalog, "table", "get", "shop.orders", *key)
        assert (wrong.exit_code, message in wrong.output) == (code, True), wrong.output


def test_a_table_and_a_partition_are_rescaled(catalog: interbed.Catalog) -> None:
    shown = run(catalog, "table", "rescale", "shop.orders", "--buckets", "3")
    assert shown.exit_code == 0, shown.output
    assert "3 bucket(s)" in shown.output
    assert catalog.get_table("shop.orders").options.bucket == 3
    one = json.loads(run(catalog, "table", "rescale", "shop.orders", "--buckets", "2", "-p", "dt=b", "--json").stdout)
    assert (one["bucket_num"], one["partitions"]) == (2, 1)
    assert catalog.get_table("shop.orders").options.bucket == 3
    wrong = run(catalog, "table", "rescale", "shop.orders", "--buckets", "0")
    assert (wrong.exit_code, "0" in wrong.output) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "done"),
    [
        ([], {"shop.orders", "shop.items", "shop.tmp_1", "test.orders"}),
        (["shop"], {"shop.orders", "shop.items", "shop.tmp_1"}),
        (["shop.items", "test"], {"shop.items", "test.orders"}),
        (["shop", "--excluding-tables", r"shop\.tmp_.*"], {"shop.orders", "shop.items"}),
        (["--including-tables", r".*\.orders"], {"shop.orders", "test.orders"}),
        (["--including-databases", "t.*"], {"test.orders"}),
        (["--including-tables", "orders", "shop.tmp_1"], {"shop.tmp_1"}),
    ],
)
def test_tables_are_compacted_by_name_and_by_pattern(
    catalog: interbed.Catalog, arguments: list[str], done: set[str]
) -> None:
    result = run(catalog, "compact", *arguments, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert {t["table"] for t in report["tables"]} == done
    assert all(t["result"]["snapshot_id"] == 3 for t in report["tables"])
    assert compacted(catalog) == done


def test_a_partition_of_a_table_is_compacted(catalog: interbed.Catalog) -> None:
    result = run(catalog, "compact", "shop.orders", "-p", "dt=b")
    assert result.exit_code == 0, result.output
    levels = catalog.get_table("shop.orders").levels().levels
    assert {(s.partition, s.level) for s in levels} == {("dt=a", 0), ("dt=b", 5)}
    for wrong in (["shop"], []):
        refused = run(catalog, "compact", *wrong, "-p", "dt=b")
        assert (refused.exit_code, "DATABASE.TABLE" in refused.output) == (2, True)


def test_a_dry_run_shows_the_planned_compactions_and_changes_nothing(catalog: interbed.Catalog) -> None:
    shown = run(catalog, "compact", "shop", "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert "shop.items:\n  dt=a bucket 0: full (asked for): rewrite 2 file(s)" in shown.output
    minor = run(catalog, "compact", "shop", "--dry-run", "--minor").output.splitlines()
    assert minor == [f"shop.{name}: nothing to compact" for name in ("items", "orders", "tmp_1")]
    assert compacted(catalog) == set()


def test_partitions_with_recent_writes_are_not_compacted(catalog: interbed.Catalog) -> None:
    soon = run(catalog, "compact", "shop.orders", "--partition-idle-time", "1 d")
    assert (soon.exit_code, soon.output) == (0, "shop.orders: nothing to compact\n")
    later = run(catalog, "table", "compact", "shop.orders", "--partition-idle-time", "0 ms", "--dry-run", "--json")
    assert len(json.loads(later.stdout)) == 2
    wrong = run(catalog, "compact", "shop.orders", "--partition-idle-time", "long")
    assert (wrong.exit_code, "--partition-idle-time" in wrong.output) == (1, True)


def test_a_table_without_buckets_is_sorted(catalog: interbed.Catalog) -> None:
    columns = pa.schema((("id", pa.int64()), ("dt", pa.string())))
    table = catalog.create_table("shop.clicks", columns, partition_keys=["dt"])
    table.append(pa.table({"id": [3, 1, 2], "dt": ["a", "a", "b"]}, schema=columns))
    order = ["--order-strategy", "order", "--order-by", "id", "--where", "dt < 'b'"]
    shown = run(catalog, "compact", "shop.clicks", *order, "--dry-run")
    assert "dt=a bucket 0: sorting (order by id): rewrite 1 file(s), 2 records" in shown.output, shown.output
    assert run(catalog, "compact", "shop.clicks", *order).exit_code == 0
    assert table.scan(["id"], filter="dt = 'a'").to_arrow().column("id").to_pylist() == [1, 3]
    assert run(catalog, "compact", "shop", *order).exit_code == 2


def test_options_of_the_tables_can_be_given(catalog: interbed.Catalog) -> None:
    option = ["--table-option", "num-sorted-run.compaction-trigger=2"]
    due = run(catalog, "compact", "shop.orders", "--minor", "--dry-run", *option)
    assert due.exit_code == 0, due.output
    assert "dt=a bucket 0: " in due.output
    wrong = run(catalog, "compact", "shop.orders", "--table-option", "num-levels")
    assert (wrong.exit_code, "--table-option" in wrong.output) == (2, True)


def test_progress_is_drawn_on_a_terminal_only(catalog: interbed.Catalog) -> None:
    terminal = {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "100"}
    arguments = ["compact", "-o", f"warehouse={catalog.warehouse}", "shop", "--json"]
    drawn = CliRunner().invoke(main, arguments, env=terminal)
    assert drawn.exit_code == 0, drawn.output
    assert "compacting shop." in drawn.stderr
    assert json.loads(drawn.stdout)["failures"] == 0
    assert run(catalog, "compact", "shop").stderr == ""


def test_a_table_that_fails_does_not_stop_the_others(catalog: interbed.Catalog) -> None:
    result = run(catalog, "compact", "shop.nope", "shop.items", "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert report["failures"] == 1
    assert "shop.nope" in report["tables"][0]["error"]
    assert compacted(catalog) == {"shop.items"}
    again = run(catalog, "compact", "shop.nope", "shop.items")
    assert "shop.nope: FAILED" in again.output
    assert "shop.items: nothing to compact" in again.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "nope"),
        (["--including-tables", "orders"], "no tables to compact"),
        (["--including-tables", "("], "'('"),
    ],
)
def test_a_selection_without_tables_is_an_error(catalog: interbed.Catalog, arguments: list[str], message: str) -> None:
    result = run(catalog, "compact", *arguments)
    assert (result.exit_code, message in result.output) == (1, True), result.output


def test_progress_is_reported_for_each_bucket(catalog: interbed.Catalog) -> None:
    reported: list[tuple[str, int, int]] = []
    tables = tables_meant(catalog, ["shop.orders", "shop.orders", "test"], TablePatterns())
    assert tables == ["shop.orders", "test.orders"]
    compact_tables(catalog, tables, CompactionScope(), progress=lambda *step: reported.append(step))
    assert reported == [(name, done, 2) for name in tables for done in (1, 2)]


def test_a_pattern_must_be_a_regular_expression() -> None:
    with pytest.raises(InvalidInputError, match="no regular expression"):
        TablePatterns(excluding_tables="[")


def test_a_simulation_is_printed_as_text_and_as_json(tmp_path: Path) -> None:
    simulate = ["simulate", "compaction", "--commits", "20", "--rows", "50"]
    shown = CliRunner().invoke(main, [*simulate, "--plot", str(tmp_path / "s.png")])
    assert shown.exit_code == 0, shown.output
    assert "space amplification" in shown.output
    assert (tmp_path / "s.png").exists()
    one = json.loads(CliRunner().invoke(main, [*simulate, "--json", "--keys", "zipf"]).stdout)
    assert (len(one["steps"]), one["workload"]["distribution"]) == (20, "zipf")
    vary = ["--vary", "num-sorted-run.compaction-trigger=3, 6,3"]
    compared = json.loads(CliRunner().invoke(main, [*simulate, "--json", *vary]).stdout)
    assert [s["compactionTrigger"] for s in compared] == [3, 6]
    assert "num-sorted-run.compaction-trigger=6" in CliRunner().invoke(main, [*simulate, *vary]).output


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--commits", "0"], 1, "commits"),
        (["--option", "num-levels"], 2, "KEY=VALUE"),
        (["--option", "num-levels=one"], 1, "num-levels"),
        (["--vary", "num-levels"], 2, "--vary"),
        (["--interval", "soon"], 1, "--interval"),
        (["--keys", "some"], 2, "uniform"),
        (["--plot", "x.gif"], 1, "x.gif"),
    ],
)
def test_wrong_arguments_of_a_simulation_are_an_error(arguments: list[str], code: int, message: str) -> None:
    result = CliRunner().invoke(main, ["simulate", "compaction", *arguments])
    assert (result.exit_code, message in result.output) == (code, True), result.output


def test_a_table_is_maintained_by_commands(catalog: interbed.Catalog) -> None:
    def answer(command: str, *arguments: str) -> str:
        result = run(catalog, "table", command, "shop.orders", *arguments)
        assert result.exit_code == 0, result.output
        return result.output

    assert "no tag is due" in answer("create-automatic-tags")
    assert json.loads(answer("compact-manifests", "--json")) == {"snapshot": 3}
    assert "nothing to merge" in answer("compact-manifests")
    assert "all files are there" in answer("remove-unexisting-files")
    assert answer("mark-partition-done", "dt=a", "dt=b").splitlines() == ["marked dt=a", "marked dt=b"]
    catalog.get_table("shop.orders").versions.reset_consumer("test-1", 1)
    assert "forgot test-1" in answer("clear-consumers", "--including", "test-.*")
    assert "is snapshot 1" in answer("create-tag", "first", "--timestamp", "2000-01-01")
    assert run(catalog, "table", "rollback", "shop.orders", "--watermark", "5").exit_code == 1
    assert "is empty" in answer("purge", "--yes")
    assert catalog.get_table("shop.orders").scan().to_arrow().num_rows == 0
