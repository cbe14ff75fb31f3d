"""The scripts of tests/spark_ext/script: the same SQL on all versions of Spark and all catalogs.

The installed PySpark runs them on the file-system catalog; with INTERBED_TEST_ALL_CATALOGS=1 every version runs them on
every catalog (file system, this server, Hive's own metastore). A version starts one session, which makes its catalogs
by CREATE CATALOG.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from interbed.spark_ext import spark_settings
from interbed.testing import metastore
from tests.spark_ext.script.runs import pyspark_directory, run_program, script_names
from tests.support.java_metastore import java_metastore

INSTALLED = "4.1.4"
ALL_CATALOGS = bool(os.environ.get("INTERBED_TEST_ALL_CATALOGS"))
VERSIONS = (INSTALLED, "4.0.5", "4.2.1", "4.3.0") if ALL_CATALOGS else (INSTALLED,)


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The options of each catalog; `{warehouse}` stands for a directory of the run's own."""
    home = tmp_path_factory.mktemp("metastores")
    hive = "'metastore' = 'hive', 'uri' = '{uri}', 'warehouse' = 'file:{{warehouse}}'"
    with ExitStack() as stack:
        if not ALL_CATALOGS:
            yield {"files": "'warehouse' = '{warehouse}'"}
            return
        served = stack.enter_context(metastore(db=f"sqlite:///{home / 'metastore.db'}", warehouse=f"file:{home}"))
        java = stack.enter_context(java_metastore())
        yield {
            "files": "'warehouse' = '{warehouse}'",
            "served": hive.format(uri=served),
            "java": hive.format(uri=java),
        }


@pytest.mark.parametrize("version", VERSIONS)
def test_the_scripts_answer_as_they_say(version: str, catalogs: Mapping[str, str], tmp_path: Path) -> None:
    statements = {
        name: f"CREATE CATALOG {name} WITH ({options.format(warehouse=tmp_path / name)})"
        for name, options in catalogs.items()
    }
    pyspark = None if version == INSTALLED else pyspark_directory(version)
    settings = {**spark_settings(), "spark.sql.warehouse.dir": str(tmp_path / "spark")}

    told = run_program(pyspark, settings, statements, script_names())

    differences = [f"{one['catalog']} {one['script']}.sql {one['difference']}" for one in told if "difference" in one]
    assert not differences, "\n\n".join(differences)
    assert [one["catalog"] for one in told] == list(catalogs)
