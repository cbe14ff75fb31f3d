"""A journal that checks the invariants of processes on each change."""

from collections.abc import Callable

from interbed.optimizer.flow.process import Process, ProcessState, TaskState
from interbed.optimizer.flow.tables import RequestKind
from interbed.optimizer.journal.api import JournalChanges, Lease, MemoryJournal


class WatchedJournal(MemoryJournal):
    """A journal that asserts the invariants of each change, and reports changes as effects."""

    def __init__(self, effect: Callable[[str], None]) -> None:
        super().__init__()
        self._effect = effect
        self.ends: dict[str, Process] = {}
        self.asked: dict[str, int] = {}
        self.pauses: dict[str, bool] = {}
        self.taken: set[int] = set()

    def store(self, lease: Lease, changes: JournalChanges) -> None:
        self._effect("store")
        known, paused = dict(self._processes), {t.name: t.paused for t in changes.tables}
        requests = dict(self._requests)
        super().store(lease, changes)
        for number in changes.answered:
            request = requests.pop(number)
            if request.kind is RequestKind.NOW:
                self.asked[request.table] = self.asked.get(request.table, 0) + 1
            elif request.kind is RequestKind.PAUSE:
                self.asked[request.table] = 0
        for process in changes.processes:
            self._check_change(process, known.get(process.id))
            if process.id not in known:
                state = self._tables[process.table]
                if state.paused or not state.enabled:
                    assert self.asked.get(process.table), "the table is paused"
                if process.reason == "asked for":
                    self.asked[process.table] -= 1
                    assert self.asked[process.table] >= 0, "more was done than was asked for"
        open_tables = [p.table for p in self._processes.values() if not p.state.has_ended]
        assert len(open_tables) == len(set(open_tables)), "a table has two processes"
        self.pauses |= paused
        self._effect("stored")

    def _check_change(self, process: Process, before: Process | None) -> None:
        if before is None:
            assert process.state is ProcessState.RUNNING
            return
        assert not before.state.has_ended, f"{process.id} ended twice"
        if process.state.has_ended:
            assert (before.state, before.ending, before.cleanup) == (
                ProcessState.ENDING,
                process.state,
                process.cleanup,
            )
        if before.state is ProcessState.ENDING and process.state is ProcessState.ENDING:
            assert (before.ending, before.cleanup) == (process.ending, process.cleanup), "an end was changed"
        if before.state is ProcessState.ENDING:
            assert process.state is not ProcessState.RUNNING

    def of(self, process_id: str) -> Process | None:
        """Return the process as stored."""
        return self._processes.get(process_id)

    def results(self, process_id: str) -> dict[int, bytes]:
        """Return the stored results of a process by task number."""
        tasks = self._tasks.get(process_id, {}).values()
        return {task.number: task.result for task in tasks if task.state is TaskState.DONE and task.result is not None}
