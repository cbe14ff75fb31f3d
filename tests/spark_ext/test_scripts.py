"""The scripts of tests/spark_ext/script on every PySpark and catalog; runs.py defines those of each run."""

from pathlib import Path

import pytest

from tests.spark_ext.script.runs import CATALOGS, OF_EACH_RUN, differences, script_names
from tests.support.spark.pyspark_versions import INSTALLED, VERSIONS

RUNS = [(version, catalog) for version in (INSTALLED, *VERSIONS) for catalog in CATALOGS]


@pytest.mark.long
@pytest.mark.parametrize(("version", "catalog"), RUNS)
def test_the_scripts_return_what_they_say(tmp_path: Path, version: str, catalog: str) -> None:
    found = differences(version, {catalog: script_names(catalog)}, tmp_path)

    assert not found, "\n\n".join(found)


def test_the_scripts_of_each_run_return_what_they_say(tmp_path: Path) -> None:
    found = differences(INSTALLED, OF_EACH_RUN, tmp_path)

    assert not found, "\n\n".join(found)
