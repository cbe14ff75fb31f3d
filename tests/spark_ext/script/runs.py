"""Runs of the scripts: versions of PySpark, and catalogs.

There are four catalogs: the file system's, two on this server (by Thrift and by Paimon's REST interface), and one on
Java's metastore. FOLDERS has the scripts that some of them have besides. In each run of the tests one session of the
installed PySpark runs OF_EACH_RUN, some scripts on the file system's catalog and some on this server. All of them on
all catalogs take minutes and belong to `make test-long`. A session makes its catalogs by CREATE CATALOG.
"""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from interbed.spark_ext import spark_settings
from tests.support.servers.java_metastore import java_metastore
from tests.support.servers.metastore import metastore
from tests.support.servers.paimon_rest import rest_options
from tests.support.spark import spark_process
from tests.support.spark.pyspark_versions import INSTALLED, version_variables
from tests.support.waits import at_most

SCRIPTS = Path(__file__).resolve().parent
ROOT = SCRIPTS.parents[2]
TIMEOUT_SECONDS = at_most(1800)

CATALOGS = ("files", "served", "rest", "java")

FOLDERS = {
    "files": ("files/*.sql", "replacing/*.sql"),
    "served": ("hive/*.sql", "replacing/*.sql"),
    "rest": ("hive/names.sql", "rest/*.sql"),
    "java": ("hive/*.sql", "replacing/*.sql"),
}

OF_EACH_RUN = {
    "files": ["evolution"],
    "served": ["ddl", "hive/names"],
}
"""On this server the statements that depend most on the metastore; elsewhere statements without another wide test.

Inserts, merge engines and views have tests of their own in each run.
"""

# Users of Paimon and of interbed also set this to insert or retype columns.
ANY_CHANGE = {"hive.metastore.disallow.incompatible.col.type.changes": "false"}


def script_names(catalog: str = "files") -> list[str]:
    """Return the names of the scripts of a catalog, whose last parts are their databases."""
    files = [*SCRIPTS.glob("*.sql")]
    for pattern in FOLDERS[catalog]:
        files += SCRIPTS.glob(pattern)
    return sorted(str(file.relative_to(SCRIPTS).with_suffix("")) for file in files)


def run_program(
    version: str, settings: Mapping[str, str], catalogs: Mapping[str, str], scripts: Mapping[str, list[str]]
) -> list[dict[str, Any]]:
    """Return the program's output with that version of PySpark. RuntimeError if it failed."""
    variables = {**version_variables(version, [ROOT / "src", ROOT]), "SPARK_LOCAL_IP": "127.0.0.1", "TZ": "UTC"}
    request = {"settings": dict(settings), "catalogs": dict(catalogs), "scripts": dict(scripts)}
    program = str(SCRIPTS / "program.py")
    output = spark_process.run_program(
        program, json.dumps(request), variables=variables, timeout_seconds=TIMEOUT_SECONDS
    )
    return [json.loads(line) for line in output.splitlines()]


def files_options(warehouse: Path) -> str:
    """Return the options of a file-system catalog, as SQL."""
    return f"'warehouse' = '{warehouse}'"


def hive_options(uri: str, warehouse: Path) -> str:
    """Return the options of a catalog over a metastore, as SQL."""
    return f"'metastore' = 'hive', 'uri' = '{uri}', 'warehouse' = 'file:{warehouse}'"


def rest_options_sql(uri: str) -> str:
    """Return the options of a catalog over the Paimon REST interface of our server, as SQL."""
    return ", ".join(f"'{key}' = '{value}'" for key, value in rest_options(uri, "hive").items())


def differences(version: str, scripts: Mapping[str, list[str]], home: Path) -> list[str]:
    """Return the differences of scripts in a version of PySpark; `scripts` has their names by catalog, `home` is a
    directory to use.
    """
    with ExitStack() as stack:
        catalogs = {c: f"CREATE CATALOG {c} WITH ({_options(c, home, stack)})" for c in scripts}
        settings = {**spark_settings(), "spark.sql.warehouse.dir": str(home / "spark")}
        if version == INSTALLED:
            settings["spark.driver.extraJavaOptions"] = spark_process.driver_jvm()
        found = run_program(version, settings, catalogs, scripts)
    if not any("statements" in one for one in found):
        raise RuntimeError(f"the scripts were not run to their end: {found}")
    return [f"{one['catalog']} {one['script']}.sql {one['difference']}" for one in found if "difference" in one]


def _options(catalog: str, home: Path, stack: ExitStack) -> str:
    match catalog:
        case "files":
            return files_options(home / "files")
        case "served":
            own = metastore(db=f"sqlite:///{home / 'metastore.db'}", warehouse=f"file:{home}")
            return hive_options(stack.enter_context(own), home / "served")
        case "rest":
            own = metastore(db=f"sqlite:///{home / 'rest.db'}", warehouse=f"file:{home / 'rest'}")
            return rest_options_sql(stack.enter_context(own).paimon)
        case "java":
            return hive_options(stack.enter_context(java_metastore(settings=ANY_CHANGE)), home / "java")
        case _:
            raise ValueError(catalog)
