"""The result of an import, by kind of object and outcome, and its progress on a terminal.

Nothing is displayed while standard error is a file or a pipe.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from interbed.catalog.server.migration.record import RecordKind

FAILURES_NAMED_MAX = 1000
"""Failures that are named; further ones are only counted."""


class CopyOutcome(StrEnum):
    """The outcome of an object's import."""

    COPIED = "copied"
    UPDATED = "updated"
    """It existed already and was updated."""
    UNCHANGED = "unchanged"
    DIFFERENT = "different"
    """It existed already and differs; it was left alone as requested."""
    FAILED = "failed"


@dataclass(slots=True, kw_only=True)
class CopySummary:
    """Counts, and notes for a person, and (object, reason) of failures."""

    counts: dict[RecordKind, Counter[CopyOutcome]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0
    dry_run: bool = False

    def count(self, kind: RecordKind, outcome: CopyOutcome, number: int = 1) -> None:
        """Add `number` objects to the counts."""
        if number:
            self.counts.setdefault(kind, Counter())[outcome] += number

    def add_failure(self, name: str, reason: str) -> None:
        """Name an object that could not be copied; further ones than FAILURES_NAMED_MAX are only counted."""
        if len(self.failures) < FAILURES_NAMED_MAX:
            self.failures.append((name, reason))

    def number(self, kind: RecordKind, outcome: CopyOutcome) -> int:
        """Return the number of objects of a kind with an outcome."""
        return self.counts.get(kind, Counter())[outcome]

    @property
    def succeeded(self) -> bool:
        """Whether every object was copied or existed already."""
        return not any(counts[CopyOutcome.FAILED] for counts in self.counts.values())

    def to_json(self) -> dict[str, Any]:
        """Return the summary as `--json` prints it."""
        return {
            "dry_run": self.dry_run,
            "seconds": round(self.seconds, 3),
            "counts": {kind.value: {o.value: n for o, n in self.counts[kind].items()} for kind in self._kinds()},
            "notes": self.notes,
            "failures": [{"object": name, "reason": reason} for name, reason in self.failures],
        }

    def __str__(self) -> str:
        lines = []
        for kind in self._kinds():
            counts = self.counts[kind]
            counted = ", ".join(f"{counts[outcome]:,} {outcome}" for outcome in CopyOutcome if counts[outcome])
            lines.append(f"{_plural(kind):<22}{counted}")
        lines.extend(f"note: {note}" for note in self.notes)
        lines.extend(f"failed: {name}: {reason}" for name, reason in self.failures)
        total = sum(sum(counts.values()) for counts in self.counts.values())
        done = "would be copied as listed above" if self.dry_run else "looked at"
        lines.append(f"{total:,} objects {done} in {self.seconds:.1f} s")
        return "\n".join(lines)

    def _kinds(self) -> list[RecordKind]:
        return [kind for kind in RecordKind if kind in self.counts]


def _plural(kind: RecordKind) -> str:
    return str(kind) if kind.value.endswith("statistics") else f"{kind}s"


class ProgressDisplay:
    """A line for each kind of object with the number of processed ones, and the current table or database."""

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
        """Count processed objects of a kind, and show them."""
        if kind not in self._tasks:
            # The total is known only at the end: the bar moves, but does not fill.
            self._tasks[kind] = self._progress.add_task(f"{self._title} {kind}", total=None, where="")
        self._progress.update(self._tasks[kind], advance=count, where=where)
