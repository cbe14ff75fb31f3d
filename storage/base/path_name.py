"""Names that become one component of a path: databases, tables, branches, tags, consumers, and files in manifests.

An accepted name is one directory entry below its parent on every file system: `<parent>/<name>` never is the parent, a
directory above it or one below a sibling. The rule depends on the source of the name. A name from a caller must be
readable and valid in every file system and object store; a name from metadata only has to be one entry.
"""

import re

from interbed.storage.base.errors import CorruptFileError, InvalidInputError

NAME_BYTES_MAX = 200
"""In UTF-8. File systems allow 255 bytes, of which prefixes and suffixes take some."""

_RULE = (
    f"A name is 1 to {NAME_BYTES_MAX} bytes without slashes or controls, does not begin or end with white space, and "
    "is more than dots."
)
# Path separators of every system, control characters of ASCII and Latin-1, line separators, marks that are invisible or
# change the direction of text, and surrogates, which have no form in UTF-8.
_FORBIDDEN = re.compile(
    "[/\\\\\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def path_name(what: str, name: object) -> str:
    """Return the name as a plain string. Raises InvalidInputError unless it is one path component everywhere."""
    if not isinstance(name, str):
        raise InvalidInputError(f"Not a {what} name: {name!r}. A name is text.")
    # A subclass of str may format itself as another text.
    plain = str.__str__(name)
    if not is_path_name(plain):
        raise InvalidInputError(f"Not a {what} name: {plain!r}. {_RULE}")
    return plain


def is_path_name(name: str) -> bool:
    """Return whether path_name accepts the name."""
    return bool(
        name.strip(".")
        and name.strip() == name
        and _FORBIDDEN.search(name) is None
        and len(name.encode()) <= NAME_BYTES_MAX
    )


def is_blank(name: str) -> bool:
    """Return whether a name shows nothing: it is empty, or has only blanks, controls and invisible marks."""
    return not any(character.isprintable() and not character.isspace() for character in name)


def is_name_part(text: str) -> bool:
    """Return whether a name may begin with the text, which may be empty."""
    return _FORBIDDEN.search(text) is None and len(text.encode()) <= NAME_BYTES_MAX


def entry_name(name: str, directory: str) -> str:
    """Return the name of a file that metadata place in the directory. Raises CorruptFileError for a path outside it."""
    if "/" in name or "\x00" in name or name in ("", ".", ".."):
        raise CorruptFileError(
            f"{name!r} can't be the name of a file in {directory}: it would be in another directory. The metadata that "
            "name it are damaged or were made to do harm; nothing was read or deleted there."
        )
    return name
