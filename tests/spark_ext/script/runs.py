"""Runs of the scripts: with which PySpark, and on which catalogs."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.peers_cache import built_once, run

SCRIPTS = Path(__file__).resolve().parent
ROOT = SCRIPTS.parents[2]
TIMEOUT_SECONDS = 1800


def script_names() -> list[str]:
    """The scripts' names, which are those of their databases."""
    return sorted(file.stem for file in SCRIPTS.glob("*.sql"))


def pyspark_directory(exact: str) -> Path:
    """Where the PySpark of that version is installed, in the tests' cache."""

    def build(directory: Path) -> None:
        run(sys.executable, "-m", "pip", "install", "--quiet", "--target", directory, f"pyspark=={exact}")

    return built_once(f"pyspark-{exact}", build)


def run_program(
    pyspark: Path | None, settings: Mapping[str, str], catalogs: Mapping[str, str], scripts: list[str]
) -> list[dict[str, Any]]:
    """What the program told, with that PySpark or the installed one; RuntimeError when it broke off."""
    path = [*([] if pyspark is None else [str(pyspark)]), str(ROOT / "src"), str(ROOT)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"PYTHONPATH": os.pathsep.join(path), "SPARK_LOCAL_IP": "127.0.0.1", "TZ": "UTC"}
    request = {"settings": dict(settings), "catalogs": dict(catalogs), "scripts": scripts}
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "program.py"), json.dumps(request)],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"The program ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]
