"""How healthy a table is, as one number from 0 to 100, and what takes points from it. Pure.

| what | points | at its worst |
|---|---|---|
| read amplification | 10 for each sorted run that a read merges beyond the first, on average | 50 |
| small files | 20 for the part of the files that a full compaction would save | 20 |
| deleted rows | 1 for every 2 % of the rows that are deleted or delete | 15 |
| expiry | 1 for every 20 snapshots that are due, or part of 20 | 5 |
| manifests | 1 for every 10 small manifests too many, or part of 10 | 5 |
| statistics | 5 when more than a tenth of the rows that ANALYZE counted came or went since | 5 |

A table without any of it has 100 and no reasons.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from interbed.storage.base.frozen import plain_errors

BEST = 100
_READ_AMPLIFICATION, _A_RUN = 50, 10
_SMALL_FILES = 20
_DELETED_ROWS, _OF_DELETED_ROWS = 15, 50
_EXPIRY, _SNAPSHOTS = 5, 20
_MANIFESTS, _SMALL_MANIFESTS = 5, 10
_STATISTICS, _OF_ROWS = 5, 10


class ScoredFigures(Protocol):
    """The figures of a table that its score depends on; those of TableHealth."""

    @property
    def has_primary_key(self) -> bool:
        """Whether the table has one."""
        ...

    @property
    def read_amplification(self) -> float:
        """How many sorted runs a read merges on average, or what an append table's costs; 1.0 is best."""
        ...

    @property
    def files(self) -> int:
        """Data files."""
        ...

    @property
    def spare_files(self) -> int:
        """The files among them that a full compaction would save."""
        ...

    @property
    def rows(self) -> int:
        """Rows of the files, before merging."""
        ...

    @property
    def delete_rows(self) -> int:
        """Those that are deleted or delete."""
        ...

    @property
    def delete_ratio(self) -> float:
        """Which part of the rows these are."""
        ...

    @property
    def snapshots_due(self) -> int:
        """Snapshots that expiry would take away."""
        ...

    @property
    def manifests_due(self) -> int:
        """Small manifests beyond the number that commits leave."""
        ...

    @property
    def statistics_rows(self) -> int | None:
        """Rows that ANALYZE counted; None where it never ran."""
        ...

    @property
    def rows_since_statistics(self) -> int | None:
        """Rows that came or went since ANALYZE; None where it never ran."""
        ...


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReason:
    """Why a table has fewer than 100 points: how many it takes, its name, and a text with figures."""

    points: int
    name: str
    text: str

    def to_json(self) -> dict[str, Any]:
        """The reason as JSON values."""
        return {"points": self.points, "name": self.name, "text": self.text}

    def __str__(self) -> str:
        return f"-{self.points} {self.name}: {self.text}"


def score_of(figures: ScoredFigures) -> int:
    """The score, from 0 for a table in the worst state to 100."""
    return BEST - sum(reason.points for reason in reasons_of(figures))


def reasons_of(figures: ScoredFigures) -> tuple[HealthReason, ...]:
    """What takes points, the most first."""
    runs, files, spare = figures.read_amplification, figures.files, figures.spare_files
    since, counted = figures.rows_since_statistics or 0, figures.statistics_rows or 0
    found = [
        HealthReason(
            points=min(_READ_AMPLIFICATION, round(_A_RUN * (runs - 1))),
            name="read amplification",
            text=(
                f"a read merges {runs:.1f} sorted runs on average"
                if figures.has_primary_key
                else f"a read costs {runs:.1f} times what it would after a full compaction"
            ),
        ),
        HealthReason(
            points=min(_SMALL_FILES, round(_SMALL_FILES * spare / files)) if files else 0,
            name="small files",
            text=f"{spare} of {files} files would be saved by joining small ones",
        ),
        HealthReason(
            points=min(_DELETED_ROWS, round(_OF_DELETED_ROWS * figures.delete_ratio)),
            name="deleted rows",
            text=f"{figures.delete_rows} of {figures.rows} rows are deleted or delete ({figures.delete_ratio:.0%})",
        ),
        HealthReason(
            points=min(_EXPIRY, -(-figures.snapshots_due // _SNAPSHOTS)),
            name="expiry",
            text=f"{figures.snapshots_due} snapshots are to expire",
        ),
        HealthReason(
            points=min(_MANIFESTS, -(-figures.manifests_due // _SMALL_MANIFESTS)),
            name="manifests",
            text=f"{figures.manifests_due} small manifests more than commits should leave",
        ),
        HealthReason(
            points=_STATISTICS if since * _OF_ROWS > counted else 0,
            name="statistics",
            text=f"{since} rows came or went since ANALYZE counted {counted}",
        ),
    ]
    return tuple(sorted((r for r in found if r.points > 0), key=lambda r: -r.points))
