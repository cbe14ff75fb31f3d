"""Progress on a terminal; nothing where standard error is a file or a pipe."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from interbed.catalog.server.migration.record import RecordKind


class ProgressDisplay:
    """A line for each kind of object with the number of those dealt with, and what is at hand."""

    def __init__(self, title: str) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[where]}"),
            console=Console(stderr=True),
            transient=True,
            disable=not Console(stderr=True).is_terminal,
        )
        self._title = title
        self._tasks: dict[RecordKind, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()

    def advance(self, kind: RecordKind, count: int, where: str = "") -> None:
        """Some objects of a kind were dealt with."""
        if kind not in self._tasks:
            # How many there will be in all is known only at the end: the bar moves, it does not fill.
            self._tasks[kind] = self._progress.add_task(f"{self._title} {kind}", total=None, where="")
        self._progress.update(self._tasks[kind], advance=count, where=where)
