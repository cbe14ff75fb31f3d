"""How far a reader of micro-batches has come, as JSON in Paimon's form of it for Spark.

    {"snapshotId": 5, "index": 2, "scanSnapshot": false, "totalSplits": 7, "commit": "…"}

Units 0 to `index` of the snapshot are read, -1 says none of them; `scanSnapshot` says that they are the rows of the
snapshot as a whole and not its changes. `commit` is interbed's own: which commit the snapshot is, or, while nothing of
it is read, the one before it, so that a rollback is noticed. Source: paimon-spark's PaimonSourceOffset.
"""

import json
from dataclasses import dataclass

from interbed.storage.base.errors import InvalidInputError

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
