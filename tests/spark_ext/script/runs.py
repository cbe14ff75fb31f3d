"""Runs of the scripts: with which PySpark, and on which catalogs."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interbed.spark_ext import spark_settings
from tests.support import spark_process
from tests.support.peers_cache import built_once, run

SCRIPTS = Path(__file__).resolve().parent
ROOT = SCRIPTS.parents[2]
TIMEOUT_SECONDS = 1800


def script_names(hive: bool = False) -> list[str]:
    """The scripts' names, whose last parts are those of their databases; `hive/` and `files/` are for such catalogs."""
    files = [*SCRIPTS.glob("*.sql"), *SCRIPTS.glob("hive/*.sql" if hive else "files/*.sql")]
    return sorted(str(file.relative_to(SCRIPTS).with_suffix("")) for file in files)


def pyspark_directory(exact: str) -> Path:
    """Where the PySpark of that version is installed, in the tests' cache."""

    def build(directory: Path) -> None:
        run(sys.executable, "-m", "pip", "install", "--quiet", "--target", directory, f"pyspark=={exact}")

    return built_once(f"pyspark-{exact}", build)


def run_program(
    pyspark: Path | None, settings: Mapping[str, str], catalogs: Mapping[str, str], scripts: Mapping[str, list[str]]
) -> list[dict[str, Any]]:
    """What the program told, with that PySpark or the installed one; RuntimeError when it broke off."""
    path = [*([] if pyspark is None else [str(pyspark)]), str(ROOT / "src"), str(ROOT)]
    variables = {"PYTHONPATH": os.pathsep.join(path), "SPARK_LOCAL_IP": "127.0.0.1", "TZ": "UTC"}
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


def differences(pyspark: Path | None, catalogs: Mapping[str, str], home: Path) -> list[str]:
    """Where the scripts' answers differ, with interbed's catalogs of these options; `home` is a directory to use."""
    statements = {name: f"CREATE CATALOG {name} WITH ({options})" for name, options in catalogs.items()}
    scripts = {name: script_names(hive="'hive'" in options) for name, options in catalogs.items()}
    settings = {**spark_settings(), "spark.sql.warehouse.dir": str(home / "spark")}
    told = run_program(pyspark, settings, statements, scripts)
    if {one["catalog"] for one in told if "statements" in one} != set(catalogs):
        raise RuntimeError(f"not every catalog was done with: {told}")
    return [f"{one['catalog']} {one['script']}.sql {one['difference']}" for one in told if "difference" in one]
