"""Parts of the commands that show the optimizer's state: the choice of the journal, and the format of values."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from interbed.catalog.client.cli.group import CatalogChoice
from interbed.storage.base.shown_text import escaped

if TYPE_CHECKING:
    from rich.text import Text

    from interbed.catalog.client.api import Catalog
    from interbed.optimizer.flow.process import Process
    from interbed.optimizer.journal.api import Journal

_Command = TypeVar("_Command", bound=Callable[..., Any])

Cell = str | tuple[str, str]
"""A cell of a printed table: a text, or a text with its style."""

_WIDTH_OF_A_PIPE = 1_000
"""Characters. A pipe has no width: each row is one line, which other programs can cut."""


def db_option(command: _Command) -> _Command:
    """Add the option `--db`, as the argument `db`."""
    return click.option(
        "--db",
        metavar="URL",
        envvar="INTERBED_OPTIMIZER_DB",
        show_envvar=True,
        help="The database of the journal; by default the catalog's own place for it.",
    )(command)


@contextlib.contextmanager
def opened_journal(
    chosen: CatalogChoice, db: str | None, about: str | None = None, *, asks: bool = False
) -> "Iterator[tuple[Catalog, Journal]]":
    """Open the catalog and its journal. With `asks` a missing journal is created, to add requests to it."""
    from interbed.optimizer.journal.sql import journal_to_ask, journal_to_read, journal_url

    with chosen.catalog(about) as catalog:
        url = journal_url(catalog, db)
        with journal_to_ask(url) if asks else journal_to_read(url) as journal:
            yield catalog, journal


def print_table(head: Sequence[str], rows: Sequence[Sequence[Cell]], *, right: Sequence[str] = ()) -> None:
    """Print a table, in colour on a terminal; columns in `right` are aligned to that side."""
    from rich.console import Console
    from rich.table import Table

    table = Table(header_style="bold")
    for name in head:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_text_of(cell) for cell in row))
    width = None if Console().is_terminal else _WIDTH_OF_A_PIPE
    Console(width=width, markup=False, highlight=False).print(table)


def print_facts(facts: Sequence[tuple[str, Cell]]) -> None:
    """Print names with their values, one a line."""
    from rich.console import Console
    from rich.text import Text

    console = Console(markup=False, highlight=False, soft_wrap=True)
    longest = max((len(name) for name, _ in facts), default=0)
    for name, cell in facts:
        value = _text_of(cell)
        console.print(Text.assemble((f"{name:<{longest}}  ", "bold"), value))


def _text_of(cell: Cell) -> "Text":
    from rich.text import Text

    return Text(escaped(cell)) if isinstance(cell, str) else Text(escaped(cell[0]), cell[1])


def score_cell(score: float | None) -> Cell:
    """Return a score with its colour."""
    from interbed.optimizer.flow.tables import IN_SHAPE_SCORE

    if score is None:
        return ""
    return f"{score:.0f}", "green" if score >= IN_SHAPE_SCORE else "yellow" if score >= 60 else "red"


def state_cell(process: "Process") -> Cell:
    """Return the state of a process with its colour."""
    styles = {"succeeded": "green", "failed": "bold red", "gave way": "yellow", "cancelled": "dim"}
    return process.state.value, styles.get(process.state.value, "cyan")


def size_cell(size: int) -> str:
    """Return bytes as text; nothing for 0."""
    from interbed.storage.base.shown_text import size_text

    return size_text(size) if size else ""


def ago(millis: int | None, now: int) -> str:
    """Return the time since `millis` as text; nothing for None."""
    from interbed.storage.base.shown_text import age_text

    return "" if millis is None else f"{age_text(now - millis)} ago"


def ahead(millis: int | None, now: int) -> str:
    """Return the time until `millis` as text; nothing for None."""
    from interbed.storage.base.shown_text import age_text

    if millis is None:
        return ""
    return "now" if millis <= now else f"in {age_text(millis - now)}"


def before_and_after(before: float, after: float | None, form: str) -> str:
    """Return two figures of a process as `62 → 100`; only the first for a process that has not ended."""
    return format(before, form) if after is None else f"{before:{form}} → {after:{form}}"


def print_processes(processes: "Sequence[Process]", now: int, *, with_table: bool) -> None:
    """Print processes, a line for each."""
    head = ["when", "table", "kind", "state", "score", "reads", "seconds", "in", "out", "why", "failure"]
    rows: list[list[Cell]] = []
    for each in processes:
        after = each.after
        score = None if after is None else after.score
        reads = None if after is None else after.read_amplification
        row: list[Cell] = [
            ago(each.created_millis, now),
            each.table,
            each.kind.value,
            state_cell(each),
            before_and_after(each.before.score, score, "d"),
            before_and_after(each.before.read_amplification, reads, ".1f"),
            f"{each.seconds:.1f}",
            size_cell(each.figures.bytes_in),
            size_cell(each.figures.bytes_out),
            each.reason,
            (each.failure or "", "red"),
        ]
        rows.append(row)
    if not with_table:
        del head[1]
        for row in rows:
            del row[1]
    print_table(head, rows, right=("score", "reads", "seconds", "in", "out"))
