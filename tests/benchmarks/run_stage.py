"""Run of one stage by one engine, in a separate process (see stage.py)."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.peers.cache import pypaimon_python

STAGE = Path(__file__).parent / "stage.py"
TIMEOUT_SECONDS = 1800

Figures = dict[str, Any]


def stage(
    engine: str,
    name: str,
    directory: Path,
    warehouse: Path | str,
    table: str,
    file_format: str = "parquet",
    *,
    store: Mapping[str, Mapping[str, str]] | None = None,
) -> Figures:
    """Run the stage, and return its figures: CPU and wall seconds, rows, peak memory in MB.

    `store` has the options of the warehouse's object store by engine.
    """
    python = sys.executable if engine.startswith("interbed") else str(pypaimon_python())
    command = [python, str(STAGE), engine, name, str(directory), str(warehouse), table, file_format]
    environment = {**os.environ, "INTERBED_BENCH_STORE": json.dumps(store or {})}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False, env=environment
    )
    if done.returncode:
        raise SystemExit(f"{engine}, {name}: {done.stderr[-2000:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def better(left: Figures | None, right: Figures) -> Figures:
    """Return the run with less CPU time."""
    return right if left is None or right["cpu_s"] < left["cpu_s"] else left
