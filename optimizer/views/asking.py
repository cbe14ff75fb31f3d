"""What people ask of the scheduler for a table: checked here, left in the journal, and done by whoever schedules."""

from dataclasses import dataclass, replace
from typing import Any

from interbed.catalog.client.api import Catalog
from interbed.optimizer.flow.request import RequestKind, TableRequest
from interbed.optimizer.journal.api import Journal
from interbed.optimizer.views.naming import known_name
from interbed.optimizer.views.status import ScheduledBy, scheduled_by


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that was left, and who takes it."""

    request: TableRequest
    scheduled_by: ScheduledBy

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        work = self.request.work
        return {
            "table": self.request.table,
            "request": self.request.kind.value,
            "work": None if work is None else work.value,
            "scheduler": self.scheduled_by.to_json(),
        }

    def __str__(self) -> str:
        what = {
            RequestKind.PAUSE: "is paused: nothing is begun for it",
            RequestKind.RESUME: "goes on",
            RequestKind.NOW: f"is asked to have {self.request.work} next",
        }[self.request.kind]
        return f"{self.request.table} {what}. {_sentence(self.scheduled_by)}"


def ask(catalog: Catalog, journal: Journal, request: TableRequest, now_millis: int) -> Asked:
    """Leave a request for a table that exists. Raises TableNotFoundError, DatabaseNotFoundError, NotSupportedError for
    a system table or a branch, JournalError.
    """
    request = replace(request, table=known_name(catalog, request.table))
    journal.ask(request)
    return Asked(request=request, scheduled_by=scheduled_by(journal, now_millis))


def _sentence(by: ScheduledBy) -> str:
    if by.is_running and by.lease is not None:
        return f"The scheduler {by.lease.holder} takes this within seconds."
    return "No scheduler runs: one has to, for this to have an effect (`interbed optimizer run`)."
