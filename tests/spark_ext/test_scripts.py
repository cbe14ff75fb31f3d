"""The scripts of tests/spark_ext/script: the same SQL on all versions of Spark and all catalogs.

The installed PySpark runs them on the file-system catalog; with INTERBED_TEST_ALL_CATALOGS=1 every version runs them on
every catalog (file system, this server, Hive's own metastore), and on Hive's those of `hive/` besides. A version starts
one session, which makes its catalogs by CREATE CATALOG.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from interbed.testing import metastore
from tests.spark_ext.script.runs import differences, files_options, hive_options, pyspark_directory
from tests.support.java_metastore import java_metastore

INSTALLED = "4.1.4"
ALL_CATALOGS = bool(os.environ.get("INTERBED_TEST_ALL_CATALOGS"))
VERSIONS = (INSTALLED, "4.0.5", "4.2.1", "4.3.0") if ALL_CATALOGS else (INSTALLED,)

# What users of Paimon and of interbed set, too, who insert or retype columns.
ANY_CHANGE = {"hive.metastore.disallow.incompatible.col.type.changes": "false"}


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], Mapping[str, str]]]:
    """Tells the options of the catalogs in a directory."""
    home = tmp_path_factory.mktemp("metastores")
    with ExitStack() as stack:
        uris = {}
        if ALL_CATALOGS:
            own = metastore(db=f"sqlite:///{home / 'metastore.db'}", warehouse=f"file:{home}")
            uris = {
                "served": stack.enter_context(own),
                "java": stack.enter_context(java_metastore(settings=ANY_CHANGE)),
            }

        def options(directory: Path) -> Mapping[str, str]:
            hive = {name: hive_options(uri, directory / name) for name, uri in uris.items()}
            return {"files": files_options(directory / "files"), **hive}

        yield options


@pytest.mark.parametrize("version", VERSIONS)
def test_the_scripts_answer_as_they_say(
    version: str, catalogs: Callable[[Path], Mapping[str, str]], tmp_path: Path
) -> None:
    pyspark = None if version == INSTALLED else pyspark_directory(version)

    found = differences(pyspark, catalogs(tmp_path), tmp_path)

    assert not found, "\n\n".join(found)
