"""Text from outside in lines for people: characters that end a line, move a cursor or turn the direction of writing are
shown by their numbers, as JSON writes them, so that a name can't forge a line of a log or of a terminal.
"""

import re

_UNPRINTABLE = re.compile(
    # C0 but for the blank, DEL and C1, marks without width and of direction, separators of lines and paragraphs, lone
    # surrogates (no encoding takes them), marks of annotations.
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escaped(text: str) -> str:
    """The text on one line, without control characters."""
    return _UNPRINTABLE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return _SHORT.get(match[0]) or f"\\u{ord(match[0]):04x}"
