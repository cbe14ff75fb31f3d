"""Files that share a Spark session or a peer run in one process of `make test`."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.durations import file_of, longest_first
from tests.support.places import SHARED_FOLDERS, place_of
from tests.support.waits import at_most

ROOT = Path(__file__).resolve().parents[1]

_CONFTEST = """
from pathlib import Path
from tests.support import durations, places

def pytest_xdist_make_scheduler(config, log):
    return places.PlacedScheduling(config, log)

def pytest_collection_modifyitems(items):
    durations.longest_first(items, {"tests/spark_ext/test_a.py": 1.0, "tests/spark_ext/test_b.py": 3.0,
                                    "tests/test_c.py": 2.0, "tests/test_d.py": 0.5})

def pytest_runtest_logreport(report):
    if report.when == "call" and hasattr(report, "node"):
        with Path("ran.txt").open("a") as file:
            file.write(f"{report.node.gateway.id} {report.nodeid}\\n")
"""


def test_shared_folders_exist_and_the_inner_ones_come_first() -> None:
    assert all((ROOT / folder).is_dir() for folder in SHARED_FOLDERS)
    assert [place_of(f"{folder}test_x.py") for folder in SHARED_FOLDERS] == list(SHARED_FOLDERS)
    assert place_of("tests/test_places.py") == "tests/test_places.py"


def test_a_process_runs_all_files_of_a_shared_folder_and_begins_with_the_longest(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    (folder / "spark_ext").mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    tests = "".join(f"def test_{number}(): pass\n" for number in range(4))
    for name in ("spark_ext/test_a.py", "spark_ext/test_b.py", "test_c.py", "test_d.py"):
        (folder / name).write_text(tests)
    command = [
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "--dist",
        "loadfile",
        "--no-loadscope-reorder",
        "--import-mode=importlib",
    ]
    subprocess.run(
        [sys.executable, *command, "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=at_most(60),
        check=True,
    )
    ran: dict[str, list[str]] = {}
    for line in (tmp_path / "ran.txt").read_text().splitlines():
        process, test = line.split()
        ran.setdefault(process, []).append(file_of(test))
    first = next(files for files in ran.values() if "tests/spark_ext/test_b.py" in files)
    assert first[:8] == ["tests/spark_ext/test_b.py"] * 4 + ["tests/spark_ext/test_a.py"] * 4
    assert sum(map(len, ran.values())) == 16


@dataclass(frozen=True)
class _NamedTest:
    """Test with the id by which it is ordered."""

    nodeid: str


@pytest.mark.parametrize("number", range(30))
def test_the_order_does_not_depend_on_the_hashes_of_a_process(number: int) -> None:
    seconds = {
        f"tests/spark_ext/test_{name}_{number}.py": value for name, value in (("a", 0.1), ("b", 0.2), ("c", 0.3))
    }
    seconds["tests/catalog/test_six_tenths.py"] = 0.6
    items = [_NamedTest(f"{file}::test") for file in reversed(seconds)]
    longest_first(cast("list[Any]", items), seconds)
    places = [place_of(file_of(item.nodeid)) for item in items]
    assert places == ["tests/catalog/test_six_tenths.py"] + ["tests/spark_ext/"] * 3
