"""Mark of snapshots that are being expired, and the plan of their files.

The mark `snapshot/.expiring` = `{"id": …, "begin": n, "end": m}` hides the snapshots from n to before m in one step.
The plan `snapshot/.expired-files-<id>` holds their ids and the paths of the files that nothing else needs. The process
that writes it first decides: an expiry, that they are deleted, or a change of the history, by an empty plan, that they
stay. A killed expiry leaves the mark or both, and the next one continues from there. Files of the planned snapshots are
deleted after all of these snapshots, so that each existing snapshot is complete, whatever the state of the mark or the
plan. interbed's own: Java Paimon ignores both files.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.io.api import FileIO
from interbed.storage.meta.paths import TablePaths

MARK = ".expiring"
_PLAN = ".expired-files-"
_WAY_OUT = "Snapshots can be read and written; `interbed table fsck --repair` removes it, so that they can expire."


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryMark:
    """Mark that the snapshots from `begin` to before `end` are being expired by the expiry of that id."""

    id: str
    begin: int
    end: int

    def covers(self, snapshot_id: int) -> bool:
        """Return whether the mark covers the snapshot."""
        return self.begin <= snapshot_id < self.end

    def to_json(self) -> str:
        """Return the content of the mark's file."""
        return json.dumps({"id": self.id, "begin": self.begin, "end": self.end})


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryPlan:
    """Decision of an expiry: the deleted snapshots before `end` and their files.

    `snapshots` has the uuid by id ('' without one). `unjudged` are the versions whose files are unknown, so that all
    files stayed.
    """

    end: int
    snapshots: Mapping[int, str]
    data: tuple[str, ...] = ()
    metadata: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return the content of the plan's file."""
        members = {
            "end": self.end,
            "snapshots": {str(k): v for k, v in self.snapshots.items()},
            "data": list(self.data),
            "metadata": list(self.metadata),
            "unjudged": list(self.unjudged),
        }
        return json.dumps(members)


class ExpiryMarks:
    """Marks and plans of one history of a table."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._directory = paths.snapshot(1).rpartition("/")[0]
        self._mark = f"{self._directory}/{MARK}"

    def find(self) -> ExpiryMark | None:
        """Return the mark; None while no expiry is running. Raises CorruptFileError."""
        value = self._read(self._mark)
        if value is None:
            return None
        try:
            return ExpiryMark(id=str(value["id"]), begin=int(value["begin"]), end=int(value["end"]))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(f"{self._mark} is not the mark of an expiry: {error}. {_WAY_OUT}") from error

    def set(self, begin: int, end: int) -> ExpiryMark | None:
        """Mark the snapshots from `begin` to before `end`. Return None when others are marked already."""
        mark = ExpiryMark(id=str(uuid.uuid4()), begin=begin, end=end)
        return mark if self._file_io.create_exclusive(self._mark, mark.to_json().encode()) else None

    def is_set(self, mark: ExpiryMark) -> bool:
        """Return whether the mark still exists."""
        return self.find() == mark

    def plan(self, mark: ExpiryMark) -> ExpiryPlan | None:
        """Return the plan of the mark; None before the decision. Raises CorruptFileError."""
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
        """Write the plan. Return it, or the plan of another process that was faster.

        Return a plan without snapshots where the other process has finished already.
        """
        if self._file_io.create_exclusive(self._plan_of(mark), plan.to_json().encode()):
            return plan
        return self.plan(mark) or _empty_plan(mark)

    def take_back(self, mark: ExpiryMark) -> bool:
        """Withdraw the mark unless a plan with deletions exists. Return whether nothing is deleted.

        The expiry that set the mark finds that decision. Raises CorruptFileError.
        """
        decided = self.decide(mark, _empty_plan(mark))
        if decided.snapshots:
            return False
        self.remove(mark)
        return True

    def remove(self, mark: ExpiryMark) -> None:
        """Remove the mark after all deletions of the plan, or when nothing is deleted."""
        # Remove the mark first: a late process that writes another plan, because this one is missing, sees that it is
        # void.
        if self.is_set(mark):
            self._file_io.delete(self._mark)
        self._file_io.delete_quietly([self._plan_of(mark)])

    def sweep(self, mark: ExpiryMark) -> None:
        """Delete the plans of other marks, which are removed. Only the process that set this mark calls it."""
        own = self._plan_of(mark)
        plans = (s.path for s in self._file_io.list(self._directory) if s.name.startswith(_PLAN))
        self._file_io.delete_quietly(sorted(path for path in plans if path != own))

    def check(self) -> None:
        """Raise CorruptFileError for a mark or a plan that can't be read."""
        mark = self.find()
        if mark is not None:
            self.plan(mark)

    def clear(self) -> None:
        """Remove an unreadable mark or plan: its snapshots stay, and files that are left are orphans."""
        # Remove the mark last, because a plan without a mark is ignored.
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


def _empty_plan(mark: ExpiryMark) -> ExpiryPlan:
    return ExpiryPlan(end=mark.begin, snapshots={})
