"""Writes the parse tables of the filter grammar, so that the first filter of a process need not compute them.

python -m tests.support.filter_grammar
"""

import base64
import io
import textwrap
import zlib
from pathlib import Path

from interbed.storage.base.predicate.grammar import made_of, new_parser

PLACE = Path(__file__).parents[2] / "storage" / "base" / "predicate" / "grammar_tables.py"


def text() -> str:
    """Return the content of the module."""
    saved = io.BytesIO()
    new_parser().save(saved)
    packed = base64.b64encode(zlib.compress(saved.getvalue(), 9)).decode()
    lines = "\n".join(f'    "{line}"' for line in textwrap.wrap(packed, 110))
    return (
        '"""The tables of the parser of filters, as lark saves them; made by tests/support/filter_grammar.py."""\n\n'
        f'MADE_OF = "{made_of()}"\n'
        f"TABLES = (\n{lines}\n)\n"
    )


if __name__ == "__main__":
    PLACE.write_text(text())
