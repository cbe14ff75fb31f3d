"""Tables whose options contradict each other, their columns or their keys, and such that only look like it.

They are the lines of option_cases.jsonl, each with the fields of OptionCase that differ from the defaults. What a table
is refused with is interbed's word; whether it is refused is Java Paimon's: test_option_rules.py in tests/interop asks.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.peers.json import TypeJson

COLUMNS: list[tuple[str, TypeJson]] = [
    ("id", "INT NOT NULL"),
    ("p", "STRING"),
    ("a", "INT"),
    ("b", "STRING"),
    ("g", "INT"),
    ("h", "BIGINT"),
    ("d", "DOUBLE"),
    ("ok", "BOOLEAN"),
    ("at", "TIMESTAMP(3)"),
    ("bytes", "BYTES"),
    ("list", {"type": "ARRAY", "element": "INT"}),
    ("map", {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}),
    (
        "rows",
        {
            "type": "ARRAY",
            "element": {
                "type": "ROW",
                "fields": [{"id": 100, "name": "k", "type": "INT"}, {"id": 101, "name": "n", "type": "INT"}],
            },
        },
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionCase:
    """A table of COLUMNS; `about` says what the case is about.

    `refused` is how interbed's message begins, None when the table is fine.
    `java` says what Java Paimon makes of a table that interbed refuses, None when it refuses it, too: at once, or when
    the table is written to and read.
    """

    about: str
    options: Mapping[str, str] = field(default_factory=dict)
    refused: str | None = None
    keys: Sequence[str] = ("id",)
    partitions: Sequence[str] = ()
    java: str | None = None

    @property
    def name(self) -> str:
        """What tells the case from others."""
        options = " ".join(f"{key}={value}" for key, value in self.options.items())
        return f"{'/'.join(self.partitions)}|{'/'.join(self.keys)}|{options}"


_LINES = Path(__file__).with_name("option_cases.jsonl").read_text().splitlines()
CASES = [OptionCase(**json.loads(line)) for line in _LINES]
