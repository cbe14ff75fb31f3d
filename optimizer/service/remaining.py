"""Whether there is anything left to do: when `--until-idle` ends. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from interbed.optimizer.flow.group import ResourceGroup
from interbed.optimizer.flow.table_state import TableState
from interbed.optimizer.flow.worker import Worker

PATIENCE_MILLIS = 10_000
"""A table that is left alone for longer than that, after a failure, is not waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """Tables that are waited for, and by name why others that need something are not."""

    waiting: tuple[str, ...] = ()
    left: Mapping[str, str]

    @staticmethod
    def of(
        tables: Iterable[TableState], groups: Mapping[str, ResourceGroup], workers: Iterable[Worker], now: int
    ) -> "Remaining":
        """What remains of tables that nobody works on."""
        served = {worker.group for worker in workers} | {name for name, group in groups.items() if group.workers}
        waiting: list[str] = []
        left: dict[str, str] = {}
        for table in tables:
            if table.unreadable is not None:
                left[table.name] = f"can't be read: {table.unreadable}"
                continue
            if table.requested is None and not (table.enabled and not table.paused and table.needs):
                continue
            if table.group not in groups:
                left[table.name] = f"is of group '{table.group}', which there is not"
            elif table.group not in served:
                left[table.name] = f"is of group '{table.group}', which has no workers"
            elif table.not_before_millis > now + PATIENCE_MILLIS:
                left[table.name] = f"is left alone after {table.failures} failure(s)"
            else:
                waiting.append(table.name)
        return Remaining(waiting=tuple(waiting), left=left)
