"""The options that say in which form rows are written, and where to."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])

FORMATS = ("table", "json", "csv", "parquet")
ROWS_SHOWN = 100
"""Rows that a person is shown unless more are asked for."""
_BY_SUFFIX = {".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".parquet": "parquet"}


def output_options(command: _Command) -> _Command:
    """Adds `--format`, `--json` and `--output`, which say how rows are written."""
    command = click.option(
        "--output",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Write to this file instead; its suffix says the format unless --format does.",
    )(command)
    command = click.option("--json", "as_json", is_flag=True, help="The same as --format json: an object a line.")(
        command
    )
    return click.option(
        "--format", "form", type=click.Choice(FORMATS), help="The form of the rows; table by default, for people."
    )(command)


def chosen_form(form: str | None, output: Path | None, as_json: bool) -> str:
    """The form that the options ask for; raises UsageError when they contradict each other."""
    if as_json and form not in (None, "json"):
        raise click.UsageError(f"Give --json or --format {form}, not both.")
    if form is None and not as_json and output is not None:
        form = _BY_SUFFIX.get(output.suffix.lower())
        if form is None:
            raise click.UsageError(f"The name of {output} says no format; give --format.")
    form = "json" if as_json else form or "table"
    if form == "table" and output is not None:
        raise click.UsageError("A table is for people; a file takes json, csv or parquet.")
    if form == "parquet" and output is None and sys.stdout.isatty():
        raise click.UsageError("Parquet is not for terminals; give --output FILE, or a pipe.")
    return form
