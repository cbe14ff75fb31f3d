"""The texts of messages in the code: string literals of Python, with `…` in place of inserted values."""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from tests.support.packages import PACKAGES

ROOT = Path(__file__).resolve().parents[2]


@lru_cache(maxsize=1)
def message_texts() -> frozenset[str]:
    """Return all texts, with blanks for line ends."""
    found: set[str] = set()
    for folder in ("src/interbed", *PACKAGES):
        for file in (ROOT / folder).rglob("*.py"):
            # The links of an editable install point to the same files.
            if file.is_relative_to(ROOT) and not any(parent.is_symlink() for parent in file.parents):
                found.update(_texts(ast.parse(file.read_text(encoding="utf-8"))))
    return frozenset(found)


def has_message(text: str) -> bool:
    """Return whether the text is part of a message; `…` in the text matches anything."""
    wanted = " ".join(text.split())
    return any(wanted in message for message in message_texts())


def _texts(tree: ast.AST) -> Iterator[str]:
    # Docstrings of modules, functions and attributes are statements of their own, not messages.
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in said:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values]
            yield " ".join(re.sub("…+", "…", "".join(parts)).split())
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield " ".join(node.value.split())
