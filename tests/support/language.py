"""Check of the language of code and pages.

    python -m tests.support.language [FOLDER ...]    lists the faults by file and line; without folders, counts of all

The rules are in STYLE.md, under "Language". The check reads the syntax tree: docstrings, comments, texts of errors, log
lines, and the names of classes and functions. In pages it reads all but code. `tests/language_glossary.txt` lists class
names of one word that are terms of the field. Regular expressions are no prose, so the check skips them.
"""

import ast
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.packages import ROOT, source_files
from tests.support.source_trees import source_tree

GLOSSARY = ROOT / "tests" / "language_glossary.txt"

RIDDLE = re.compile(r"(?:What|Where|Who|Which|When|Why|As|That|There|No longer|So)\b")
"""Beginnings of a docstring that neither command nor name a thing."""

QUESTION = re.compile(r"(?:Whether|How)\b")
"""Beginnings that only a property or a class may have; a function returns whether or how."""

NO_THING = "a docstring that does not name a thing or an action"

FEWEST_WORDS = 4

WORDS = {
    "an actor without a noun": re.compile(r"\b(?:who(?:ever)?|somebody|nobody|anybody|everybody)\b", re.IGNORECASE),
    "a picture instead of the field's word": re.compile(
        r"\b(?:anew|heeds?|heeded|tells?|told|taken back|takes back|looked after|looks after|patience|courtesy|lest)\b",
        re.IGNORECASE,
    ),
    "`stand` for to be": re.compile(
        r"\b(?:stands?|stood) (?:in|at|on|beside|there|for it|above|below)\b", re.IGNORECASE
    ),
    "an `else` at the end": re.compile(r"\belse[.;]"),
}

FOREIGN = frozenset({"tell"})
"""Names of methods that Python's protocols prescribe."""

FENCE = re.compile(r"\s*(?:```|~~~)")
INLINE_CODE = re.compile(r"`[^`]*`")

ONE_WORD = re.compile(r"_?[A-Z][a-z]+\d*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageFault:
    """A place that breaks a rule. `line` counts from 1."""

    path: Path
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.rule}: {self.text}"


def glossary(path: Path = GLOSSARY) -> frozenset[str]:
    """Return the class names of one word that are terms of the field."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return frozenset(line.strip() for line in lines if line.strip() and not line.startswith("#"))


def faults_of(path: Path, terms: frozenset[str]) -> Iterator[LanguageFault]:
    """Yield the faults of a module."""
    for node in ast.walk(source_tree(path)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _docstring_faults(path, node)
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _word_faults(path, node.lineno, _words_of(node.name))
        if isinstance(node, ast.ClassDef) and ONE_WORD.match(node.name) and node.name.lstrip("_") not in terms:
            yield LanguageFault(path=path, line=node.lineno, rule="a class name of one word", text=node.name)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_prose(node.value):
            yield from _word_faults(path, node.lineno, node.value)
    with tokenize.open(path) as source:
        for token in tokenize.generate_tokens(source.readline):
            if token.type == tokenize.COMMENT:
                yield from _word_faults(path, token.start[0], token.string)


def _is_prose(text: str) -> bool:
    """Return whether the text has several words and is no regular expression."""
    return " " in text and r"\b" not in text


def page_faults(path: Path) -> Iterator[LanguageFault]:
    """Yield the faults of a Markdown page; its code is left out."""
    in_code = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if FENCE.match(line):
            in_code = not in_code
        elif not in_code:
            yield from _word_faults(path, number, INLINE_CODE.sub("", line))


def _words_of(name: str) -> str:
    """Return the words of a name in snake case or in camel case."""
    return "" if name in FOREIGN else re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").strip().lower()


def _docstring_faults(
    path: Path, node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
) -> Iterator[LanguageFault]:
    text = ast.get_docstring(node)
    if text is None:
        return
    first, line = text.splitlines()[0], getattr(node, "lineno", 1)
    is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not any(
        isinstance(decorator, ast.Name) and decorator.id.endswith("property") for decorator in node.decorator_list
    )
    if RIDDLE.match(first) or (is_function and QUESTION.match(first)):
        yield LanguageFault(path=path, line=line, rule=NO_THING, text=first)
    elif len(first.split()) < FEWEST_WORDS:
        yield LanguageFault(path=path, line=line, rule=f"a docstring of less than {FEWEST_WORDS} words", text=first)


def _word_faults(path: Path, line: int, text: str) -> Iterator[LanguageFault]:
    for rule, pattern in WORDS.items():
        for match in pattern.finditer(text):
            around = text[max(match.start() - 30, 0) : match.end() + 30].replace("\n", " ")
            yield LanguageFault(path=path, line=line + text.count("\n", 0, match.start()), rule=rule, text=around)


def main(folders: tuple[str, ...]) -> None:
    """Print the faults of folders, or the number of faults of each package."""
    terms = glossary()
    if folders:
        for path in source_files(*folders):
            for fault in sorted(faults_of(path, terms), key=lambda fault: fault.line):
                print(fault)
        return
    counts: Counter[str] = Counter()
    for path in source_files():
        name = str(path.relative_to(ROOT).parent)
        counts["/".join(name.split("/")[:2])] += sum(1 for _ in faults_of(path, terms))
    for name, count in counts.most_common():
        print(f"{count:6} {name}")
    print(f"{sum(counts.values()):6} in all")


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
