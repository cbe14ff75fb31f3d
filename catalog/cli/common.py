"""What the commands have in common: catalog options, KEY=VALUE pairs, JSON for programs and text for people."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import click

from interbed.catalog.factory import open_catalog
from interbed.storage.table.table import Table

_Command = TypeVar("_Command", bound=Callable[..., Any])


class View(Protocol):
    """What is shown: as text by `str`, and as JSON."""

    def to_json(self) -> dict[str, Any]:
        """The view as a JSON object."""
        ...


def pairs(given: Iterable[str], *, form: str = "KEY=VALUE", hint: str = "--option") -> dict[str, str]:
    """KEY=VALUE texts as a map; raises BadParameter, which names the first that is none."""
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise click.BadParameter(f"{text!r} is not {form}.", param_hint=hint)
        found[key] = value
    return found


def catalog_options(command: _Command) -> _Command:
    """Adds `--option` for the options of a catalog, as `options`."""
    return click.option(
        "--option", "-o", "options", multiple=True, metavar="KEY=VALUE", help="A catalog option; repeatable."
    )(command)


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


@contextmanager
def opened_table(options: dict[str, str], name: str) -> Iterator[Table]:
    """A table of the catalog that the options describe."""
    with open_catalog("interbed", options) as catalog:
        yield catalog.get_table(name)


def show(view: View, as_json: bool) -> None:
    """Print a view."""
    click.echo(json.dumps(view.to_json(), indent=2) if as_json else str(view))


def show_json(value: object) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2))
