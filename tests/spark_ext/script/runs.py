"""Runs of the scripts: with which PySpark, and on which catalogs.

With INTERBED_TEST_ALL_CATALOGS=1 each PySpark runs all of them on every catalog: file system, this server and Java's
metastore, the latter two with those of `hive/` besides. Else, for they take minutes, the installed one runs ON_JAVA on
Java's metastore, and the others run ON_OTHERS on the file system's. A version starts one session, which makes its
catalogs by CREATE CATALOG.
"""

import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from interbed.spark_ext import spark_settings
from interbed.testing import metastore
from tests.support import spark_process
from tests.support.java_metastore import java_metastore
from tests.support.pyspark_versions import INSTALLED, version_variables

SCRIPTS = Path(__file__).resolve().parent
ROOT = SCRIPTS.parents[2]
TIMEOUT_SECONDS = 1800

ON_OTHERS = ["around", "nested", "versions"]
"""Statements of every kind that version_program.py does not have already."""

ON_JAVA = ["around", "ddl", "hive/names", "hive/views", "inserts"]
"""Statements that leave most to the metastore."""

# What users of Paimon and of interbed set, too, who insert or retype columns.
ANY_CHANGE = {"hive.metastore.disallow.incompatible.col.type.changes": "false"}


def script_names(hive: bool = False) -> list[str]:
    """The scripts' names, whose last parts are those of their databases; `hive/` and `files/` are for such catalogs."""
    files = [*SCRIPTS.glob("*.sql"), *SCRIPTS.glob("hive/*.sql" if hive else "files/*.sql")]
    return sorted(str(file.relative_to(SCRIPTS).with_suffix("")) for file in files)


def run_program(
    version: str, settings: Mapping[str, str], catalogs: Mapping[str, str], scripts: Mapping[str, list[str]]
) -> list[dict[str, Any]]:
    """What the program told, with that version of PySpark; RuntimeError when it broke off."""
    variables = {**version_variables(version, [ROOT / "src", ROOT]), "SPARK_LOCAL_IP": "127.0.0.1", "TZ": "UTC"}
    request = {"settings": dict(settings), "catalogs": dict(catalogs), "scripts": dict(scripts)}
    program = str(SCRIPTS / "program.py")
    told = spark_process.run_program(program, json.dumps(request), variables=variables, timeout_seconds=TIMEOUT_SECONDS)
    return [json.loads(line) for line in told.splitlines()]


def files_options(warehouse: Path) -> str:
    """The options of a file-system catalog, as SQL."""
    return f"'warehouse' = '{warehouse}'"


def hive_options(uri: str, warehouse: Path) -> str:
    """The options of a catalog over a metastore, as SQL."""
    return f"'metastore' = 'hive', 'uri' = '{uri}', 'warehouse' = 'file:{warehouse}'"


def differences(version: str, home: Path) -> list[str]:
    """Where the scripts' answers differ on a version of PySpark; `home` is a directory to use."""
    everything = bool(os.environ.get("INTERBED_TEST_ALL_CATALOGS"))
    catalogs = {"files": files_options(home / "files")}
    scripts = {"files": script_names() if everything or version == INSTALLED else ON_OTHERS}
    with ExitStack() as stack:
        if everything or version == INSTALLED:
            own = metastore(db=f"sqlite:///{home / 'metastore.db'}", warehouse=f"file:{home}")
            catalogs["served"] = hive_options(stack.enter_context(own), home / "served")
            scripts["served"] = script_names(hive=True)
            java = java_metastore(settings=ANY_CHANGE)
            catalogs["java"] = hive_options(stack.enter_context(java), home / "java")
            scripts["java"] = script_names(hive=True) if everything else ON_JAVA
        statements = {name: f"CREATE CATALOG {name} WITH ({options})" for name, options in catalogs.items()}
        settings = {**spark_settings(), "spark.sql.warehouse.dir": str(home / "spark")}
        told = run_program(version, settings, statements, scripts)
    if {one["catalog"] for one in told if "statements" in one} != set(catalogs):
        raise RuntimeError(f"not every catalog was done with: {told}")
    return [f"{one['catalog']} {one['script']}.sql {one['difference']}" for one in told if "difference" in one]
