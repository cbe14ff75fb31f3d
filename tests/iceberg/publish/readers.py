"""Statements in DuckDB and ClickHouse, which run in a separate environment."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.peers.cache import readers_python
from tests.support.waits import at_most


def read_by_others(statements: Sequence[tuple[str, str]]) -> list[tuple[Any, str | None]]:
    """Return the rows or the error of each statement; each is paired with `duckdb` or `clickhouse`."""
    program = Path(__file__).with_name("readers_program.py")
    command = [readers_python(), program]
    text = json.dumps(statements)
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=at_most(300), check=False)
    assert done.returncode == 0, done.stderr
    return [(rows, error) for rows, error in json.loads(done.stdout)]
