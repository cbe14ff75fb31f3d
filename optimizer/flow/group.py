"""Resource groups and their workers. A group has processes that work for its tables, and a policy that orders these.

A file of groups is TOML, a table for each group:

    [default]
    workers = 2            # local processes; more may register over the network
    threads = 1            # tasks that a process runs at the same time
    memory = "1 gb"        # memory of a process
    policy = "quota"       # or "balanced"
    window = "1 h"         # over which shares are counted
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from interbed.storage.base.errors import InvalidInputError, InvalidOptionError
from interbed.storage.base.quantities import parse_duration_millis, parse_memory
from interbed.storage.base.shown_text import did_you_mean

DEFAULT_GROUP = "default"

_FIELDS = ("workers", "threads", "memory", "policy", "window")


class GroupPolicy(StrEnum):
    """Policy that chooses the next of the waiting tables."""

    QUOTA = "quota"
    """The table that has used the least part of its share in the window."""
    BALANCED = "balanced"
    """The table with the worst score; waiting makes its score worse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceGroup:
    """A resource group: `workers` local processes of `threads` tasks each, with `memory` bytes each."""

    name: str = DEFAULT_GROUP
    workers: int = 1
    threads: int = 1
    memory: int = 1 << 30
    policy: GroupPolicy = GroupPolicy.QUOTA
    window_millis: int = 3_600_000

    def __post_init__(self) -> None:
        if self.workers < 0 or self.threads < 1 or self.window_millis < 1 or self.memory < 1:
            raise InvalidInputError(
                f"Group '{self.name}' has {self.workers} workers of {self.threads} threads and {self.memory} bytes, "
                f"and a window of {self.window_millis} ms; none may be negative, and only the workers may be 0."
            )

    def to_json(self) -> dict[str, Any]:
        """Return the group as a JSON object."""
        return {
            "name": self.name,
            "workers": self.workers,
            "threads": self.threads,
            "memory": self.memory,
            "policy": self.policy.value,
            "window_millis": self.window_millis,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "ResourceGroup":
        """Return the group of an object made by to_json."""
        return ResourceGroup(**{**value, "policy": GroupPolicy(value["policy"])})


def read_groups(path: Path) -> dict[str, ResourceGroup]:
    """Read the groups of a file, by name. Raises InvalidInputError that names file, group and field."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInputError(f"The groups in {path} can't be read: {error}.") from error
    groups = {}
    for name, values in found.items():
        if not isinstance(values, dict):
            raise InvalidInputError(f"{path} has '{name}' outside of a group; a group begins with [name].")
        groups[name] = _group(path, name, values)
    return groups


def _group(path: Path, name: str, values: Mapping[str, Any]) -> ResourceGroup:
    for field in values:
        if field not in _FIELDS:
            raise InvalidInputError(f"Group '{name}' in {path} has no '{field}'.{did_you_mean(field, _FIELDS)}")
    given: dict[str, Any] = {}
    for field in ("workers", "threads"):
        if field in values:
            if not isinstance(values[field], int) or isinstance(values[field], bool):
                raise InvalidInputError(f"'{field}' of group '{name}' in {path} is {values[field]!r}, not a number.")
            given[field] = values[field]
    try:
        if "memory" in values:
            given["memory"] = parse_memory("memory", str(values["memory"]))
        if "window" in values:
            given["window_millis"] = parse_duration_millis("window", str(values["window"]))
        if "policy" in values:
            given["policy"] = GroupPolicy(values["policy"])
    except (InvalidOptionError, ValueError) as error:
        raise InvalidInputError(f"Group '{name}' in {path}: {error}.") from error
    try:
        return ResourceGroup(name=name, **given)
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker: `threads` tasks at the same time in `memory` bytes. Without a heartbeat until `lease_until_millis`
    the scheduler forgets it.
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
        """Return the worker as a JSON object."""
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
        """Return the worker of an object made by to_json."""
        return Worker(**value)
