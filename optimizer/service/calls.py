"""What workers ask, answered by the scheduler: the service of thrift_idl/optimizing.thrift."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interbed.optimizer.errors import NotOnDutyError, UnknownWorkerError
from interbed.optimizer.service.duty import Duty
from interbed.optimizer.service.wire import (
    assignment_to_wire,
    outcome_of_wire,
    ref_of_wire,
    ref_to_wire,
    storable,
    verdict_to_wire,
)
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.shown_text import masked
from interbed.thrift_idl.optimizing import constants, ttypes

THREADS_MAX = 1024
_PLACE_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogForWorkers:
    """The catalog that the work is about, as workers are told of it: without what is secret."""

    name: str
    options: Mapping[str, str]

    @staticmethod
    def of(name: str, options: Mapping[str, str]) -> "CatalogForWorkers":
        """Leaves out each option that is masked where options are shown."""
        return CatalogForWorkers(name=name, options={k: v for k, v in options.items() if masked(k, v) == v})


class SchedulerCalls:
    """One for all connections. Every method raises NotScheduling while this process does not schedule."""

    def __init__(self, duty: Duty, catalog: CatalogForWorkers, lease_millis: int) -> None:
        self._duty = duty
        self._catalog = catalog
        self._lease_millis = lease_millis

    def enter(self, worker: Any) -> Any:
        """Register a worker. Refused for another version of the interface, and for a group that there is not."""
        if worker.version != constants.VERSION:
            raise ttypes.Refused(
                f"The optimizer speaks version {constants.VERSION} of its interface, the worker at "
                f"{storable(worker.place, _PLACE_MAX)} version {worker.version}: install the same version of interbed "
                "for both."
            )
        if not 1 <= worker.threads <= THREADS_MAX or worker.memory < 1:
            raise ttypes.Refused(
                f"A worker has 1 to {THREADS_MAX} threads and at least a byte of memory, not {worker.threads} and "
                f"{worker.memory}."
            )
        place = storable(worker.place, _PLACE_MAX)
        try:
            known = self._duty.ask(lambda s: s.register(worker.group, worker.threads, worker.memory, place))
        except NotOnDutyError as error:
            raise ttypes.NotScheduling(str(error)) from error
        except InvalidInputError as error:
            raise ttypes.Refused(str(error)) from error
        self._duty.wake()
        return ttypes.Seat(
            workerId=known.id,
            leaseMillis=self._lease_millis,
            catalogName=self._catalog.name,
            catalogOptions=dict(self._catalog.options),
        )

    def poll(self, worker_id: str, free: int) -> list[Any]:
        """Attempts for a worker. UnknownWorker."""
        try:
            given = self._duty.ask(lambda s: s.poll(worker_id, min(free, THREADS_MAX)))
        except NotOnDutyError as error:
            raise ttypes.NotScheduling(str(error)) from error
        except UnknownWorkerError as error:
            raise ttypes.UnknownWorker(str(error)) from error
        if given:
            # What waits to be planned may be planned now.
            self._duty.wake()
        return [assignment_to_wire(each) for each in given]

    def beat(self, worker_id: str, running: list[Any]) -> list[Any]:
        """The attempts that a worker is to give up. UnknownWorker."""
        refs = [ref_of_wire(ref) for ref in running]
        try:
            return [ref_to_wire(ref) for ref in self._duty.ask(lambda s: s.beat(worker_id, refs))]
        except NotOnDutyError as error:
            raise ttypes.NotScheduling(str(error)) from error
        except UnknownWorkerError as error:
            raise ttypes.UnknownWorker(str(error)) from error

    def complete(self, ref: Any, outcome: Any) -> int:
        """What becomes of what an attempt brought."""
        brought = outcome_of_wire(outcome)
        try:
            verdict = self._duty.ask(lambda s: s.complete(ref_of_wire(ref), brought))
        except NotOnDutyError as error:
            raise ttypes.NotScheduling(str(error)) from error
        self._duty.wake()
        return verdict_to_wire(verdict)

    def leave(self, worker_id: str) -> None:
        """A worker ends."""
        try:
            self._duty.ask(lambda s: s.leave(worker_id))
        except NotOnDutyError as error:
            raise ttypes.NotScheduling(str(error)) from error
        self._duty.wake()
