"""The sources compile against newer versions of PySpark; the one jar of this installation works in each supported one.

`run_versions.py` runs all of the extension's tests there; this is the short form.
"""

import shutil
from pathlib import Path

import pytest
from hatch_build import INTERFACE, SOURCE_FOLDERS

from tests.support.shares import each_run
from tests.support.spark.pyspark_versions import VERSIONS, version_variables
from tests.support.spark.spark_process import run_program
from tests.support.waits import at_most

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("version_program.py")
TIMEOUT_SECONDS = at_most(300)

COMPILE = "import sys, hatch_build; from pathlib import Path; hatch_build.build_jar(Path(sys.argv[1]))"


def _run(version: str, *arguments: str, path: list[Path]) -> None:
    run_program(*arguments, variables=version_variables(version, path), timeout_seconds=TIMEOUT_SECONDS)


# Spark 4.0 has no table constraints, which the sources refer to; the jar runs there nevertheless.
@pytest.mark.long
@pytest.mark.parametrize("version", sorted(set(VERSIONS) - {"4.0"}))
def test_the_sources_compile_against_pyspark(version: str, tmp_path: Path) -> None:
    for folder in SOURCE_FOLDERS:
        shutil.copytree(ROOT / folder, tmp_path / folder)

    shutil.copy(ROOT / INTERFACE, tmp_path / INTERFACE)

    _run(version, "-c", COMPILE, str(tmp_path), path=[ROOT])

    assert (tmp_path / "spark_ext" / "jvm" / "interbed-spark.jar").stat().st_size > 100_000


# All tests run on the installed version, and one on the newest; the versions in between take long.
@pytest.mark.long
@pytest.mark.parametrize("version", each_run(VERSIONS, lambda version: version == "4.3"))
def test_the_one_jar_works_in_pyspark(version: str, tmp_path: Path) -> None:
    _run(version, str(PROGRAM), str(tmp_path), version, path=[ROOT / "src"])
