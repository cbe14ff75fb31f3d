"""What commits of this process have come to, for a person who ends a command by Ctrl-C."""

from collections.abc import Iterator
from contextlib import contextmanager


class CommitProgress:
    """The snapshots that were created, by the place of their table, and the one that is being created now."""

    def __init__(self) -> None:
        self.created: list[tuple[str, int]] = []
        self.under_way: tuple[str, int] | None = None

    @contextmanager
    def creating(self, location: str, snapshot_id: int) -> Iterator[None]:
        """While the block runs, it is not known whether the snapshot is created; after an error it is not."""
        self.under_way = location, snapshot_id
        try:
            yield
        except Exception:
            self.under_way = None
            raise
        # An interrupt, which is no Exception, leaves it under way.

    def done(self, *, created: bool) -> None:
        """The outcome of the creation is known."""
        if created and self.under_way is not None:
            self.created.append(self.under_way)
        self.under_way = None

    @property
    def text(self) -> str:
        """In a sentence."""
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
            return f"Snapshot {snapshot_id} of {location} was committed before that, nothing else."
        return f"{len(self.created)} snapshots were committed before that, snapshot {snapshot_id} of {location} last."


PROGRESS = CommitProgress()
"""That of this process."""
