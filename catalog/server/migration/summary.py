"""What an import did: objects by kind and by what became of them."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from interbed.catalog.server.migration.record import RecordKind


class CopyOutcome(StrEnum):
    """What became of an object."""

    COPIED = "copied"
    UPDATED = "updated"
    """It was there already and has changed since."""
    UNCHANGED = "unchanged"
    DIFFERENT = "different"
    """It was there already and differs; it was left alone because that was asked for."""
    FAILED = "failed"


@dataclass(slots=True, kw_only=True)
class Summary:
    """Counts, and what a person should know: notes, and (object, reason) of what failed."""

    counts: dict[RecordKind, Counter[CopyOutcome]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0
    dry_run: bool = False

    def count(self, kind: RecordKind, outcome: CopyOutcome, number: int = 1) -> None:
        """Add to the counts."""
        if number:
            self.counts.setdefault(kind, Counter())[outcome] += number

    def number(self, kind: RecordKind, outcome: CopyOutcome) -> int:
        """How many."""
        return self.counts.get(kind, Counter())[outcome]

    @property
    def succeeded(self) -> bool:
        """Whether everything was copied or was there already."""
        return not any(counts[CopyOutcome.FAILED] for counts in self.counts.values())

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
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
