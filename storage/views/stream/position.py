"""How far a stream has come: a checkpoint of a stream, and the positions of micro-batches.

The id of a snapshot is given again after a rollback or a fast-forward. A checkpoint therefore names the commit of the
last snapshot that the stream has passed, so that a stream that resumes finds out whether the table still has it. As
text, `5@<commit>`. A plain number says no more than the id, and nothing can be found out from it.

A position of micro-batches is JSON in Paimon's form of it for Spark:

    {"snapshotId": 5, "index": 2, "scanSnapshot": false, "totalSplits": 7, "commit": "…"}

Units 0 to `index` of the snapshot are read, -1 means none of them. With `scanSnapshot` they are the rows of the
snapshot as a whole, not its changes. `commit` is interbed's own: the commit of the snapshot or, while nothing of it is
read, of the one before it, so that a rollback is noticed. Source: paimon-spark's PaimonSourceOffset.

A position in an eventual log is a view of the table: a snapshot, overlaid by what was written since:

    {"snapshotId": 7, "uuid": "…", "covered": {"0": 120}, "log": {"0": 150}}

The `uuid` distinguishes the snapshot from another one that gets its number after a rollback. The snapshot decides about
all records before `covered`; those from there to `log` were handed out before it was known whether they are committed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

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


NOTHING_READ = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPosition:
    """Units up to `index` of a snapshot are read. `total` is how many it has, None before any of them is known.

    `commit` is that of the snapshot, or of the one before it at `NOTHING_READ`; None where it is not known.
    """

    snapshot_id: int
    index: int = NOTHING_READ
    full: bool = False
    total: int | None = None
    commit: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether nothing of the snapshot is left."""
        return self.total is not None and self.index == self.total - 1

    @property
    def order(self) -> tuple[int, int]:
        """Positions of one stream in the order in which it passes them."""
        return self.snapshot_id, self.index

    def to_json(self) -> str:
        """The position as JSON."""
        value: dict[str, object] = {
            "snapshotId": self.snapshot_id,
            "index": self.index,
            "scanSnapshot": self.full,
        }
        if self.total is not None:
            value["totalSplits"] = self.total
        if self.commit is not None:
            value["commit"] = self.commit
        return json.dumps(value, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> "StreamPosition":
        """The position of such JSON; raises InvalidInputError for anything else."""
        try:
            value = json.loads(text)
            total, commit = value.get("totalSplits"), value.get("commit")
            return StreamPosition(
                snapshot_id=int(value["snapshotId"]),
                index=int(value["index"]),
                full=bool(value["scanSnapshot"]),
                total=None if total is None else int(total),
                commit=None if commit is None else str(commit),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidInputError(f"Not a position in a stream: {text!r}.") from error


Offsets = Mapping[int, int]
"""Of partitions of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBatchPosition:
    """A reader's view of the table; snapshot 0 is a table without any."""

    snapshot_id: int
    uuid: str | None = None
    covered: Offsets
    log: Offsets

    def to_json(self) -> str:
        """The position as JSON."""
        value = {
            "snapshotId": self.snapshot_id,
            "uuid": self.uuid,
            "covered": _texts(self.covered),
            "log": _texts(self.log),
        }
        return json.dumps(value, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> "LogBatchPosition | StreamPosition":
        """The position of such JSON, or of one in the rows of a snapshot; raises InvalidInputError for others."""
        try:
            value = json.loads(text)
            if "log" not in value:
                return StreamPosition.from_json(text)
            return LogBatchPosition(
                snapshot_id=int(value["snapshotId"]),
                uuid=value["uuid"],
                covered=_numbers(value["covered"]),
                log=_numbers(value["log"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidInputError(f"Not a position in a stream of a log: {text!r}.") from error


def _texts(offsets: Offsets) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def _numbers(value: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in value.items()}
