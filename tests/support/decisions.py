"""The pages of docs/decisions/, one for each decision about the architecture."""

import re
from datetime import date
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs" / "decisions"
SECTIONS = ("Context", "Decision", "Not chosen", "Consequences")
"""The headings of each page, in this order."""

_HEAD = re.compile(r"# (\d+)\. (.+)\n\nDate: (\d{4}-\d\d-\d\d)\n")


class Decision(NamedTuple):
    """Page of an architecture decision: its number, title, date and path."""

    number: int
    title: str
    date: date
    path: Path


def decisions() -> list[Decision]:
    """Return all decisions by number. Raises ValueError for a page that lacks its number, title and date at the top."""
    found = []
    for path in sorted(DECISIONS.glob("[0-9]*.md")):
        head = _HEAD.match(path.read_text(encoding="utf-8"))
        if head is None:
            raise ValueError(f"{path.name} does not begin with '# NUMBER. TITLE' and 'Date: YYYY-MM-DD'.")
        found.append(Decision(int(head[1]), head[2], date.fromisoformat(head[3]), path))
    return found
