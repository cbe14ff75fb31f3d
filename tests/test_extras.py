"""A library that is not installed is named in one line, with the command that installs it."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import interbed
from interbed import MissingExtraError
from interbed.catalog.server.database.session import SqlRepository
from interbed.cli import main
from interbed.storage.base.errors import EXTRAS, load_extra

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def table(tmp_path: Path) -> interbed.Table:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("shop")
    made = catalog.create_table("shop.t", pa.schema([("id", pa.int64())]), primary_keys=["id"], options={"bucket": "1"})
    made.append([{"id": 1}])
    return made


def sketches(table: interbed.Table) -> Any:
    options = {"merge-engine": "aggregation", "fields.s.aggregate-function": "hll_sketch", "bucket": "1"}
    catalog = interbed.load_catalog("lake", warehouse=str(Path(table.location).parents[1]))
    schema = pa.schema((("id", pa.int64()), ("s", pa.binary())))
    return catalog.create_table("shop.s", schema, primary_keys=["id"], options=options).append(
        [{"id": 1, "s": b""}] * 2
    )


@pytest.mark.parametrize(
    ("library", "use", "message"),
    [
        ("pandas", lambda t: t.scan().to_pandas(), "to_pandas needs pandas: pip install 'interbed[pandas]'"),
        ("pandas", lambda t: t.changes().to_pandas(), "to_pandas needs pandas: pip install 'interbed[pandas]'"),
        ("pandas", lambda t: built(t).to_pandas([]), "to_pandas needs pandas: pip install 'interbed[pandas]'"),
        ("polars", lambda t: t.scan().to_polars(), "to_polars needs polars: pip install 'interbed[polars]'"),
        ("polars", lambda t: t.to_polars(lazy=True), "to_polars needs polars: pip install 'interbed[polars]'"),
        ("duckdb", lambda t: t.scan().to_duckdb("t"), "to_duckdb needs duckdb: pip install 'interbed[duckdb]'"),
        ("duckdb", lambda t: built(t).to_duckdb([], "t"), "to_duckdb needs duckdb: pip install 'interbed[duckdb]'"),
        ("matplotlib", lambda t: t.levels().plot("l.svg"), "A picture needs matplotlib: pip install 'interbed[plot]'"),
        (
            "hdfs_native",
            lambda t: interbed.load_catalog(warehouse="hdfs://absent:8020/lake"),
            "hdfs://absent:8020 needs hdfs_native: pip install 'interbed[hdfs]'",
        ),
        ("datasketches", sketches, "datasketches: pip install 'interbed[sketches]'"),
        (
            "psycopg",
            lambda t: SqlRepository("postgresql://nobody@localhost/db"),
            "A PostgreSQL database needs psycopg: pip install 'interbed[postgres]'",
        ),
    ],
)
def test_a_missing_library_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
    table: interbed.Table,
    library: str,
    use: Callable[[interbed.Table], Any],
    message: str,
) -> None:
    # pyarrow looks for pandas once, when it first makes an array, and fails at a blocked module.
    pa.array([library])
    hide(monkeypatch, library)
    with pytest.raises(MissingExtraError) as caught:
        use(table)
    assert str(caught.value).endswith(message)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ImportError)


def built(table: interbed.Table) -> Any:
    return table.new_read_builder().new_read()


def hide(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    for module in list(sys.modules):
        if module.partition(".")[0] == library:
            monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, library, None)


def test_a_command_reports_a_missing_library_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hide(monkeypatch, "psycopg")
    result = CliRunner().invoke(main, ["server", "--db", "postgresql://x@localhost/y", "--warehouse", str(tmp_path)])
    assert result.exit_code == 1
    assert result.stderr == "Error: A PostgreSQL database needs psycopg: pip install 'interbed[postgres]'\n"


def test_a_missing_dependency_of_an_installed_library_is_not_taken_for_the_library(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "polars.py").write_text("import no_such_library\n")
    for module in list(sys.modules):
        if module.partition(".")[0] == "polars":
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        load_extra("polars", needed_by="to_polars")


def test_every_named_extra_exists_in_the_project() -> None:
    declared = (ROOT / "pyproject.toml").read_text().split("[project.optional-dependencies]")[1].split("\n[")[0]
    for library, extra in EXTRAS.items():
        assert f"\n{extra} = [" in declared
        # Names of distributions have hyphens for the underscores of their modules.
        assert library.replace("_", "-") in declared
