"""A worker: a process, here or elsewhere, that carries out tasks of one group."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker. `threads` is how many tasks it runs at the same time, `memory` its bytes; it is gone when it says
    nothing until `lease_until_millis`.
    """

    id: str
    group: str
    threads: int
    memory: int
    place: str
    since_millis: int
    lease_until_millis: int
    running: int = 0

    def to_json(self) -> dict[str, Any]:
        """The worker as a JSON object."""
        return {
            "id": self.id,
            "group": self.group,
            "threads": self.threads,
            "memory": self.memory,
            "place": self.place,
            "since_millis": self.since_millis,
            "lease_until_millis": self.lease_until_millis,
            "running": self.running,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "Worker":
        """The worker of an object made by to_json."""
        return Worker(**value)
