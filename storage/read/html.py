"""Rows as HTML, for notebooks. Everything that comes from a table is escaped."""

from collections.abc import Iterable
from html import escape

import pyarrow as pa

from interbed.storage.base.row.python_values import python_values

SHOWN_ROWS = 20
"""How many rows are shown; one more is read to know whether there are more."""

_SHOWN_CHARACTERS = 80


def html_table(rows: pa.Table, caption: str) -> str:
    """The rows with their columns and types, cut off after SHOWN_ROWS."""
    heads = (f"{escape(f.name)}<br><small>{escape(str(f.type))}</small>" for f in rows.schema)
    shown = rows.slice(0, SHOWN_ROWS)
    cells = zip(*(python_values(column) for column in shown.columns), strict=True) if shown.num_columns else ()
    body = "".join(_row("td", (escape(_cut(value)) for value in row)) for row in cells)
    more = "<p>…</p>" if rows.num_rows > SHOWN_ROWS else ""
    return (
        f"<div><p><code>{escape(caption)}</code></p><table><thead>{_row('th', heads)}</thead><tbody>{body}</tbody>"
        f"</table>{more}</div>"
    )


def html_facts(facts: Iterable[tuple[str, str]], caption: str) -> str:
    """Names and values, one pair a row."""
    body = "".join(_row("td", (escape(name), escape(value))) for name, value in facts)
    return f"<div><p><code>{escape(caption)}</code></p><table><tbody>{body}</tbody></table></div>"


def _row(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"


def _cut(value: object) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
