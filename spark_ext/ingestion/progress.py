"""How far a run of ingestion has come, from one round to the next, and from one call to the next."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from interbed.ingest.flow.messages import Positions
from interbed.storage.base.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The counts of a run, and its positions.

    All tables have what is before `read`, if their own position is still the one of which `notes` has a digest: those
    that got no rows are not told each time. A table whose position is another one, because it was taken back, or
    because somebody else went on for the same group, is where it says. `ends` are where the run is to end, `noted` and
    `planned` when tables were told last, and when messages were, in seconds since 1970, `size` how many messages a task
    reads at most, `failures` how often in a row rounds have failed.
    """

    messages: int = 0
    rows: Mapping[str, int] = field(default_factory=dict)
    bad: int = 0
    commits: int = 0
    read: Positions = field(default_factory=Positions)
    notes: Mapping[str, str] = field(default_factory=dict)
    ends: Positions | None = None
    noted: float = 0.0
    planned: float = 0.0
    size: int | None = None
    failures: int = 0

    def to_json(self) -> str:
        """The progress as text."""
        value = {name: each for name, each in asdict(self).items() if name not in ("read", "ends")}
        ends = None if self.ends is None else json.loads(self.ends.to_json())
        read = json.loads(self.read.to_json())
        return json.dumps({**value, "read": read, "topic_ids": dict(self.read.ids), "ends": ends})

    @staticmethod
    def from_json(text: str) -> "Progress":
        """The progress of a text made by to_json; what is lacking is as at the beginning. Raises InvalidInputError."""
        try:
            value: dict[str, Any] = json.loads(text)
            ids = json.dumps(value.pop("topic_ids", {}))
            for name in ("read", "ends"):
                if value.get(name) is not None:
                    of_read = ids if name == "read" else None
                    value[name] = Positions.from_json(json.dumps(value[name]), "the progress", of_read)
            return Progress(**value)
        except (ValueError, TypeError) as error:
            raise InvalidInputError(f"{text[:100]!r} is no progress of ingestion: {error}") from error

    def position_of(self, name: str, own: Positions | None) -> Positions:
        """How far a table is that has this position of its own."""
        return self.read.beyond(own) if own is not None and self.notes.get(name) == digest(own) else own or Positions()


def digest(positions: Positions) -> str:
    """A short text that differs where positions do."""
    return hashlib.sha256(positions.to_json().encode()).hexdigest()[:16]
