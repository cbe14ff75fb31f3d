"""Tables whose options contradict each other, their columns or their keys, and similar ones that are valid.

They are the lines of option_cases.jsonl, each with the fields of OptionCase that differ from the defaults. The
refusal's text is interbed's; whether a table is refused follows Java Paimon: test_option_rules.py in tests/interop
compares the two.
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
    """A table of COLUMNS, with the subject of the case in `about`.

    `refused` is the beginning of interbed's message, None when the table is valid. `java` describes the effect in Java
    Paimon of a table that interbed refuses, None when Java refuses it, too: at once, or when the table is written to
    and read.
    """

    about: str
    options: Mapping[str, str] = field(default_factory=dict)
    refused: str | None = None
    keys: Sequence[str] = ("id",)
    partitions: Sequence[str] = ()
    java: str | None = None

    @property
    def name(self) -> str:
        """Unique identifier of the case."""
        options = " ".join(f"{key}={value}" for key, value in self.options.items())
        return f"{'/'.join(self.partitions)}|{'/'.join(self.keys)}|{options}"


_LINES = Path(__file__).with_name("option_cases.jsonl").read_text().splitlines()
CASES = [OptionCase(**json.loads(line)) for line in _LINES]
