"""Names that no database or table may have: they are not one component of a path, or look like another name.

`NAMES` is for databases, tables and views. `LEADING_OUT` are names of other directories, which no call may follow.
"""

from collections.abc import Iterator

_ABOVE = ("..", "../..", "../../..")
_TARGETS = ("precious", "precious/", "moved", "x.db/y", "etc/passwd")
_CONTROLS = [*map(chr, range(0x20)), "\x7f", *map(chr, range(0x80, 0xA0)), "\u2028", "\u2029"]
_MARKS = "\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
_BLANKS = " \u00a0\u1680\u2003\u3000"


def _leading_out() -> Iterator[str]:
    yield from _ABOVE
    for above in _ABOVE:
        for target in _TARGETS:
            yield f"{above}/{target}"
            yield f"{above.replace('/', chr(92))}\\{target}"
            yield f"x/{above}/{target}"
    for target in _TARGETS:
        yield f"/{target}"
        yield f"//{target}"
        yield f"./{target}"
        yield f"{target}/.."
        yield f"file:///{target}"
        yield f"s3://bucket/{target}"
        yield f"C:\\{target}"
        yield f"\\\\host\\{target}"
    yield from ("/", "//", "/.", "/..", "./", "../", "a/b", "a//b", "a/", "/a", "a\\b", "a\\", "\\a", "..\\", "..\x00")
    yield from ("../precious\x00", "a/../../precious", "a/./b", "....//precious", "..;/precious", "..%2f../precious")


def _not_names() -> Iterator[str]:
    yield from ("", ".", "...", "....", "." * 40, " ", "   ", "\t", "\n")
    yield from (f"a{control}b" for control in _CONTROLS)
    yield from (f"a{mark}b" for mark in _MARKS)
    yield from (f"{blank}a" for blank in _BLANKS)
    yield from (f"a{blank}" for blank in _BLANKS)
    yield from ("\ud800", "a\udfff", "a\udc80b", "\ud83d")
    yield from ("a" * 201, "é" * 101, "漢" * 67, "a" * 300, "a" * 5000)


LEADING_OUT = tuple(dict.fromkeys(_leading_out()))
"""Names that lead into another directory, at least on some systems."""

NAMES = tuple(dict.fromkeys((*LEADING_OUT, *_not_names())))
"""All hostile names of databases, tables and views."""

TABLES = tuple(dict.fromkeys((*NAMES, ".hidden", "a.b", "t$", "t$branch_", "t$$", "$", "t$branch_../x", "t$../../x")))
"""Hostile names of tables: a dot in a name separates databases, and a `$` a branch or a system table."""
