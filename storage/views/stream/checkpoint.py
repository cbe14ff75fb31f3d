"""How far a stream of changes has come: the next snapshot to look at, and which commit the one before it is.

The id of a snapshot is given again after a rollback or a fast-forward. A checkpoint therefore names the commit of the
last snapshot that the stream has passed, and a stream that goes on from it finds out whether the table still has it.
As text, `5@<commit>`. A plain number says no more than the id, and nothing can be found out from it.
"""

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.meta.snapshot.snapshot import Snapshot


class StreamCheckpoint(int):
    """The id of the next snapshot to look at; `passed` is the commit of the snapshot before, None for not known."""

    passed: str | None

    def __new__(cls, next_snapshot: int, passed: str | None = None) -> "StreamCheckpoint":
        checkpoint = super().__new__(cls, next_snapshot)
        checkpoint.passed = passed
        return checkpoint

    @staticmethod
    def after(snapshot: Snapshot) -> "StreamCheckpoint":
        """The checkpoint of a stream that has passed the snapshot."""
        return StreamCheckpoint(snapshot.id + 1, commit_of(snapshot))

    @staticmethod
    def of(given: int | str) -> "StreamCheckpoint":
        """The checkpoint of a number, or of what `to_text` made; raises InvalidInputError for other texts."""
        if isinstance(given, StreamCheckpoint):
            return given
        if isinstance(given, int):
            return StreamCheckpoint(given)
        number, _, passed = given.partition("@")
        if not (number.isascii() and number.isdigit()):
            raise InvalidInputError(f"Not a checkpoint of a stream: {given!r}. It is a snapshot's id, or '5@<commit>'.")
        return StreamCheckpoint(int(number), passed or None)

    def to_text(self) -> str:
        """The checkpoint as text, with the commit, to be kept outside of the process."""
        return str(int(self)) if self.passed is None else f"{int(self)}@{self.passed}"


def commit_of(snapshot: Snapshot) -> str:
    """What names the commit of a snapshot: its uuid, or the name of its changes' list where a writer gave it none."""
    return snapshot.uuid or snapshot.delta_manifest_list


def is_commit(snapshot: Snapshot, commit: str) -> bool:
    """Whether `commit_of` made that text of this snapshot."""
    return commit in (snapshot.uuid, snapshot.delta_manifest_list)
