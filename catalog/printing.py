"""Output for people: a name, location or comment that a server or a file holds must not forge a line or move the
cursor of a terminal. Control characters are shown as storage.base.plain_text writes them.

JSON for programs does not come here: it escapes control characters itself.
"""

from collections.abc import Iterable, Sequence

import click

from interbed.storage.base.plain_text import escaped

__all__ = ["escaped", "markup_of", "print_columns", "print_line", "print_lines", "print_text", "readable"]


def print_line(text: str, *, err: bool = False) -> None:
    """Print one line, whatever is in it."""
    click.echo(escaped(text), err=err)


def print_lines(items: Iterable[str], *, empty: str) -> None:
    """Print each item on a line of its own; `empty` without any."""
    click.echo("\n".join(map(escaped, items)) or empty)


def print_columns(rows: Sequence[Sequence[str]], *, indent: str = "") -> None:
    """Print rows, of which there is one at least, with their cells below each other and two blanks between them."""
    shown = [[escaped(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        print_line(indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_text(text: str, *, err: bool = False) -> None:
    """Print a text that has several lines by itself."""
    click.echo(readable(text), err=err)


def markup_of(text: str) -> str:
    """A text on one line for rich's columns, in which brackets would be markup."""
    return escaped(text).replace("[", "\\[")


def readable(text: str) -> str:
    """A text of several lines without other control characters."""
    return "\n".join(map(escaped, text.split("\n")))
