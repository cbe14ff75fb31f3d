"""Figures of LSM trees and of simulations: three file formats, reproducible bytes, and clear errors."""

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import InvalidInputError, NotSupportedError, StorageAccessError
from interbed.storage.views.figure import require_drawing
from interbed.storage.views.simulate.simulation import plot_simulations
from interbed.storage.views.simulate.simulator import simulate
from interbed.storage.views.simulate.workload import Workload
from tests.support.waits import at_most

BEGINNINGS = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> interbed.Table:
    """A table of two buckets with several sorted runs."""
    catalog = interbed.load_catalog(warehouse=tmp_path_factory.mktemp("lake"))
    catalog.create_database("shop")
    schema = pa.schema([("id", pa.int64())])
    table = catalog.create_table(
        "shop.orders", schema, primary_keys=["id"], options={"bucket": "2", "write-only": "true"}
    )
    for start in range(3):
        table.upsert(pa.table({"id": list(range(start, 100, 3))}))
    return table


def text_of(svg: Path) -> str:
    """Return the texts of an SVG file, which matplotlib keeps as comments."""
    ElementTree.parse(svg)
    return svg.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", BEGINNINGS)
def test_levels_are_drawn_to_files_of_each_format(table: interbed.Table, tmp_path: Path, kind: str) -> None:
    target = tmp_path / f"levels.{kind}"
    table.levels().plot(target)
    assert target.read_bytes().startswith(BEGINNINGS[kind])


def test_the_picture_names_buckets_levels_and_keys(table: interbed.Table, tmp_path: Path) -> None:
    table.levels().plot(tmp_path / "levels.svg")
    shown = text_of(tmp_path / "levels.svg")
    for text in ("shop.orders, snapshot 3", "bucket 0", "bucket 1", "level 0", "keys (id)", "3 sorted runs, in shape"):
        assert f"<!-- {text} -->" in shown


def test_one_simulation_is_drawn_with_its_compactions_and_several_with_a_legend(tmp_path: Path) -> None:
    workload = Workload(commits=30, rows=20)
    simulate(workload).plot(tmp_path / "one.svg")
    one = text_of(tmp_path / "one.svg")
    for text in ("sorted runs", "write amplification", "read amplification", "space amplification", "compactions"):
        assert f"<!-- {text} -->" in one
    several = [
        simulate(workload, {"num-sorted-run.compaction-trigger": trigger}, label=f"trigger {trigger}")
        for trigger in ("3", "6")
    ]
    plot_simulations(several, tmp_path / "several.svg")
    shown = text_of(tmp_path / "several.svg")
    assert "<!-- trigger 3 -->" in shown
    assert "<!-- trigger 6 -->" in shown


def test_a_workload_without_compactions_is_drawn_too(tmp_path: Path) -> None:
    simulate(Workload(commits=1, rows=1)).plot(tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size > 0


def test_the_same_picture_has_the_same_bytes(tmp_path: Path) -> None:
    for name in ("first", "second"):
        simulate(Workload(commits=10, rows=5)).plot(tmp_path / f"{name}.svg")
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()


def test_an_unknown_file_format_is_refused(table: interbed.Table, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"levels\.gif"):
        table.levels().plot(tmp_path / "levels.gif")


def test_the_error_names_a_missing_directory(table: interbed.Table, tmp_path: Path) -> None:
    with pytest.raises(StorageAccessError, match="nowhere"):
        table.levels().plot(tmp_path / "nowhere" / "levels.svg")


def test_without_matplotlib_the_error_says_how_to_install_it() -> None:
    # A new interpreter, in which the library cannot be imported.
    program = (
        "import sys\n"
        "sys.modules['matplotlib'] = None\n"
        "from interbed.storage.base.errors import NotSupportedError\n"
        "from interbed.storage.views.simulate.simulator import simulate\n"
        "from interbed.storage.views.simulate.workload import Workload\n"
        "try:\n"
        "    simulate(Workload(commits=1)).plot('x.svg')\n"
        "except NotSupportedError as error:\n"
        "    print(error)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=at_most(60), check=True
    )
    assert result.stdout == "A picture needs matplotlib: pip install 'interbed[plot]'\n"
    assert issubclass(NotSupportedError, interbed.InterbedError)
    require_drawing("picture.svg")


def test_matplotlib_is_imported_only_for_drawing() -> None:
    imports = "import sys, interbed.storage.table.table, interbed.storage.views.simulate.simulation"
    program = f"{imports}; print('matplotlib' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=at_most(60), check=True
    )
    assert result.stdout == "False\n"
