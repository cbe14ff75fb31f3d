"""Run `interbed metastore` commands as on a command line."""

import json
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from interbed.cli import main


def run(*arguments: str | Path, code: int = 0, env: dict[str, str] | None = None) -> str:
    """Return the output of a command that ends with this exit code, with standard error if the code is not 0."""
    result = _result(arguments, code, env)
    text: str = result.stdout if code == 0 else result.output
    return text


def run_json(*arguments: str | Path, code: int = 0) -> Any:
    """Return the output of a command with `--json`, parsed."""
    return json.loads(_result((*arguments, "--json"), code, None).stdout)


def command(*arguments: str | Path) -> list[str]:
    """Return the command line for a process of its own."""
    return [sys.executable, "-m", "interbed.cli", "metastore", *(str(argument) for argument in arguments)]


def _result(arguments: tuple[str | Path, ...], code: int, env: dict[str, str] | None) -> Any:
    result = CliRunner().invoke(main, ["metastore", *(str(argument) for argument in arguments)], env=env)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, f"{result.exit_code}: {result.output[-3000:]}"
    return result
