"""Which snapshots are being expired: `snapshot/.expiring`, and what goes with them: `snapshot/.expired-files-<id>`.

The mark `{"id": …, "begin": n, "end": m}` takes the snapshots from n to before m out of sight in one step. The plan
holds their ids and the paths of the files that nothing else needs; whoever writes it first has decided, an expiry that
they go, or a change of the line, by an empty plan, that they stay. A killed expiry leaves the mark or both, and the
next one goes on from there. Files that a snapshot names go after all planned snapshots have
gone, so that each snapshot that is there is whole, whatever became of the mark or the plan. interbed's own: Java Paimon
passes over both files.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.meta.paths import TablePaths

MARK = ".expiring"
_PLAN = ".expired-files-"
_WAY_OUT = "Snapshots can be read and written; `interbed table fsck --repair` takes it away, so that they can expire."


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryMark:
    """The snapshots from `begin` to before `end` are being expired by the expiry of that id."""

    id: str
    begin: int
    end: int

    def covers(self, snapshot_id: int) -> bool:
        """Whether the snapshot is among them."""
        return self.begin <= snapshot_id < self.end

    def to_json(self) -> str:
        """The content of the mark's file."""
        return json.dumps({"id": self.id, "begin": self.begin, "end": self.end})


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryPlan:
    """What was decided: the snapshots before `end` go, each with its uuid ('' without one), and the paths after them.

    `unjudged` are the versions of which it is unknown what they need, so that all files stayed.
    """

    end: int
    snapshots: Mapping[int, str]
    data: tuple[str, ...] = ()
    metadata: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The content of the plan's file."""
        members = {
            "end": self.end,
            "snapshots": {str(k): v for k, v in self.snapshots.items()},
            "data": list(self.data),
            "metadata": list(self.metadata),
            "unjudged": list(self.unjudged),
        }
        return json.dumps(members)


class ExpiryMarks:
    """The mark of one line of a table."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._directory = paths.snapshot(1).rpartition("/")[0]
        self._mark = f"{self._directory}/{MARK}"

    def find(self) -> ExpiryMark | None:
        """The mark; None while no expiry is under way. Raises CorruptFileError."""
        value = self._read(self._mark)
        if value is None:
            return None
        try:
            return ExpiryMark(id=str(value["id"]), begin=int(value["begin"]), end=int(value["end"]))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(f"{self._mark} is not the mark of an expiry: {error}. {_WAY_OUT}") from error

    def set(self, begin: int, end: int) -> ExpiryMark | None:
        """Mark the snapshots from `begin` to before `end`; None when others are marked already."""
        mark = ExpiryMark(id=str(uuid.uuid4()), begin=begin, end=end)
        return mark if self._file_io.create_exclusive(self._mark, mark.to_json().encode()) else None

    def is_set(self, mark: ExpiryMark) -> bool:
        """Whether the mark still stands."""
        return self.find() == mark

    def plan(self, mark: ExpiryMark) -> ExpiryPlan | None:
        """What was decided for the mark; None as long as nothing was. Raises CorruptFileError."""
        path = self._plan_of(mark)
        value = self._read(path)
        if value is None:
            return None
        try:
            return ExpiryPlan(
                end=int(value["end"]),
                snapshots={int(k): str(v) for k, v in value["snapshots"].items()},
                data=tuple(value["data"]),
                metadata=tuple(value["metadata"]),
                unjudged=tuple(value["unjudged"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptFileError(f"{path} is not the plan of an expiry: {error}. {_WAY_OUT}") from error

    def decide(self, mark: ExpiryMark, plan: ExpiryPlan) -> ExpiryPlan:
        """Write the plan down; it is returned, or that of another process that was faster.

        One without snapshots where the other one has come to the end already.
        """
        if self._file_io.create_exclusive(self._plan_of(mark), plan.to_json().encode()):
            return plan
        return self.plan(mark) or _nothing_goes(mark)

    def take_back(self, mark: ExpiryMark) -> bool:
        """Take the mark away unless it was decided that something goes; whether nothing goes. Raises CorruptFileError.

        Whoever marked it finds that decided.
        """
        decided = self.decide(mark, _nothing_goes(mark))
        if decided.snapshots:
            return False
        self.remove(mark)
        return True

    def remove(self, mark: ExpiryMark) -> None:
        """Take the mark away: all that was decided is done, or nothing goes."""
        # The mark first: who is late and decides once more, because the plan is gone, sees that it does not count.
        if self.is_set(mark):
            self._file_io.delete(self._mark)
        self._file_io.delete_quietly([self._plan_of(mark)])

    def sweep(self, mark: ExpiryMark) -> None:
        """Delete the plans of other marks, which are gone; who set this one calls it."""
        own = self._plan_of(mark)
        plans = (s.path for s in self._file_io.list(self._directory) if s.name.startswith(_PLAN))
        self._file_io.delete_quietly(sorted(path for path in plans if path != own))

    def check(self) -> None:
        """Raise CorruptFileError for a mark or a plan that can't be read."""
        mark = self.find()
        if mark is not None:
            self.plan(mark)

    def clear(self) -> None:
        """Take away what can't be read: what it announced does not happen, and files that are left are orphans."""
        # A plan without a mark is nobody's, so the mark goes last.
        plans = [s.path for s in self._file_io.list(self._directory) if s.name.startswith(_PLAN)]
        self._file_io.delete_quietly(sorted(plans))
        self._file_io.delete(self._mark)

    def _plan_of(self, mark: ExpiryMark) -> str:
        return f"{self._directory}/{_PLAN}{mark.id}"

    def _read(self, path: str) -> Any:
        try:
            value = json.loads(self._file_io.read_bytes(path))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise CorruptFileError(f"{path} is damaged: {error}. {_WAY_OUT}") from error
        return value


def _nothing_goes(mark: ExpiryMark) -> ExpiryPlan:
    return ExpiryPlan(end=mark.begin, snapshots={})
