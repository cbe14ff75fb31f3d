"""Output to the terminal, and command groups that suggest a command for a misspelt name.

A name, location or comment that a server or a file holds must not forge a line or move the cursor of a terminal:
control characters are shown as shown_text.py writes them. JSON for programs escapes control characters itself.
"""

from collections.abc import Iterable, Sequence

import click

from interbed.storage.base.shown_text import did_you_mean, escaped


def print_line(text: str, *, err: bool = False) -> None:
    """Print a text on one line, escaped."""
    click.echo(escaped(text), err=err)


def print_lines(items: Iterable[str], *, empty: str) -> None:
    """Print each item on a line of its own, or `empty` without items."""
    click.echo("\n".join(map(escaped, items)) or empty)


def print_columns(rows: Sequence[Sequence[str]], *, indent: str = "") -> None:
    """Print at least one row, with aligned cells and two blanks between them."""
    shown = [[escaped(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        print_line(indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_text(text: str, *, err: bool = False) -> None:
    """Print a text of several lines, each escaped."""
    click.echo(readable(text), err=err)


def markup_of(text: str) -> str:
    """Return a text on one line for rich's columns, with brackets escaped, which would be markup."""
    return escaped(text).replace("[", "\\[")


def readable(text: str) -> str:
    """Return a text of several lines without other control characters."""
    return "\n".join(map(escaped, text.split("\n")))


class SuggestingGroup(click.Group):
    """Command group that suggests the command most similar to a misspelt name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not (ctx.resilient_parsing or name.startswith("-")) and self.get_command(ctx, name) is None:
            ctx.fail(f"No such command '{name}'.{did_you_mean(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)
