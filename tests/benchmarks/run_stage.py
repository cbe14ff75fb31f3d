"""Runs one stage of the work by one engine, in a process of its own (see stage.py)."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.peers.cache import pypaimon_python

STAGE = Path(__file__).parent / "stage.py"
TIMEOUT_SECONDS = 1800

Figures = dict[str, Any]


def stage(
    engine: str, name: str, directory: Path, warehouse: Path, table: str, file_format: str = "parquet"
) -> Figures:
    """What the stage took: CPU and wall seconds, rows, peak memory in MB."""
    python = sys.executable if engine.startswith("interbed") else str(pypaimon_python())
    command = [python, str(STAGE), engine, name, str(directory), str(warehouse), table, file_format]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    if done.returncode:
        raise SystemExit(f"{engine}, {name}: {done.stderr[-2000:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def better(left: Figures | None, right: Figures) -> Figures:
    """The run with less CPU time."""
    return right if left is None or right["cpu_s"] < left["cpu_s"] else left
