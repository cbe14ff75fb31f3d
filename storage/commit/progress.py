"""Report of the commits of this process, for a command that is interrupted by Ctrl-C."""

from collections.abc import Iterator
from contextlib import contextmanager


class CommitProgress:
    """Snapshots that were created, with the location of their table, and the snapshot that is being created now."""

    def __init__(self) -> None:
        self.created: list[tuple[str, int]] = []
        self.under_way: tuple[str, int] | None = None

    @contextmanager
    def creating(self, location: str, snapshot_id: int) -> Iterator[None]:
        """Mark the outcome of the snapshot's creation as unknown while the block runs.

        After an error the snapshot was not created.
        """
        self.under_way = location, snapshot_id
        try:
            yield
        except Exception:
            self.under_way = None
            raise
        # An interrupt, which is no Exception, leaves the outcome unknown.

    def done(self, *, created: bool) -> None:
        """Record the outcome of the creation."""
        if created and self.under_way is not None:
            self.created.append(self.under_way)
        self.under_way = None

    @property
    def text(self) -> str:
        """Summary of the commits in one sentence."""
        if self.under_way is not None:
            location, snapshot_id = self.under_way
            return (
                f"It is not known whether snapshot {snapshot_id} of {location} was committed; "
                "`interbed table snapshots` shows it if it was."
            )
        if not self.created:
            return "No snapshot was committed."
        location, snapshot_id = self.created[-1]
        if len(self.created) == 1:
            return f"Only snapshot {snapshot_id} of {location} was committed before that."
        return f"{len(self.created)} snapshots were committed before that, snapshot {snapshot_id} of {location} last."


PROGRESS = CommitProgress()
"""Progress of the commits of this process."""
