"""What the commands have in common: JSON for programs and text for people, partitions."""

import json
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

import click

from interbed.catalog.client.cli.group import pairs
from interbed.storage.base.terminal import print_text

_Command = TypeVar("_Command", bound=Callable[..., Any])

table_name = click.argument("name", metavar="DATABASE.TABLE")
"""Adds the table's name, as `name`."""


class Printable(Protocol):
    """What is shown: as text by `str`, and as JSON."""

    def to_json(self) -> dict[str, Any]:
        """The view as a JSON object."""
        ...


def json_flag(command: _Command) -> _Command:
    """Adds `--json`, as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def partition_options(command: _Command) -> _Command:
    """Adds `--partition`, as `partition`."""
    return click.option(
        "--partition", "-p", multiple=True, metavar="COLUMN=VALUE", help="Partitions with this value only; repeatable."
    )(command)


def partition_spec(given: Iterable[str]) -> dict[str, object] | None:
    """The partition specification; None for the whole table."""
    return dict(pairs(given, form="COLUMN=VALUE", hint="--partition")) or None


def names(given: Iterable[str]) -> list[str]:
    """Names of an option that is repeatable and takes several with commas between them."""
    return [name.strip() for text in given for name in text.split(",") if name.strip()]


def show(view: Printable, as_json: bool) -> None:
    """Print a view."""
    if as_json:
        show_json(view.to_json())
    else:
        print_text(str(view))


def show_json(value: object) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2))


def done(what: str, result: dict[str, object], as_json: bool) -> None:
    """Print what a command has done: a sentence, or its figures as JSON."""
    if as_json:
        show_json(result)
    else:
        print_text(what)
