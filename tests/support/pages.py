"""Pages of docs/ that say what the code does: their Python and their sessions are run, their commands are those that
there are.
"""

import doctest
import itertools
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from interbed.cli import main
from tests.support.sql_script import run_script

DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True)
class Page:
    """One page, by the name of its file."""

    name: str

    @property
    def text(self) -> str:
        """The page as it is."""
        return (DOCS / self.name).read_text(encoding="utf-8")

    def blocks(self, language: str) -> list[str]:
        """The blocks of code in a language."""
        return re.findall(rf"^```{language}\n(.*?)^```$", self.text, re.DOTALL | re.MULTILINE)

    def run_python(self, **names: Any) -> int:
        """Run the examples with these names defined; how many there are. AssertionError tells what differs."""
        examples = doctest.DocTestParser().get_doctest(
            "".join(self.blocks("python")), dict(names), f"docs/{self.name}", None, None
        )
        told: list[str] = []
        failed, tried = doctest.DocTestRunner(verbose=False).run(examples, out=told.append)
        assert failed == 0, "".join(told)
        return tried

    def run_sql(self, execute: Callable[[str], list[Any]]) -> int:
        """Run the statements, written as tests.support.sql_script says; how many there are."""
        return run_script("\n".join(self.blocks("sql")), execute)

    def run_console(self, run: Callable[[list[str]], str]) -> int:
        """Run the sessions: lines that start with `$ interbed`, each with what it prints below; how many there are.

        `run` takes a command's arguments. `…` in the output stands for anything, blanks at the ends of lines for
        nothing.
        """
        tried = 0
        for block in self.blocks("console"):
            for each in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                line, _, wanted = each.partition("\n")
                program, *arguments = shlex.split(line)
                assert program == "interbed", line
                found = "\n".join(text.rstrip() for text in run(arguments).splitlines())
                pattern = ".*".join(map(re.escape, wanted.rstrip("\n").split("…")))
                assert re.fullmatch(pattern, found), f"{line}\n{found}\ninstead of\n{wanted}"
                tried += 1
        return tried

    def check_commands(self) -> int:
        """Check that the commands and their options exist; how many lines there are."""
        lines = [line for block in self.blocks("sh") for line in block.splitlines()]
        for line in lines:
            check_command(line)
        return len(lines)


def commands(text: str) -> list[str]:
    """The lines of `interbed` in the blocks for a shell, those that go on joined."""
    blocks = re.findall(r"^ *```(?:shell|sh|bash)\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    lines = [line.strip() for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line.startswith("interbed ")]


def check_command(line: str) -> None:
    """Check that a command and its options exist, up to what the shell does with its output."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;>")
    lexer.whitespace_split = True
    words = list(itertools.takewhile(lambda word: not set(word) <= set("|&;>"), lexer))
    assert words[0] == "interbed"
    command: click.Command = main
    context = click.Context(main)
    known: set[str] = set()
    for word in words[1:]:
        if isinstance(command, click.Group) and (found := command.get_command(context, word)) is not None:
            command = found
            known |= {name for parameter in command.params for name in parameter.opts}
    assert not isinstance(command, click.Group) or command.invoke_without_command, line
    assert {word for word in words if word.startswith("-")} <= known, line
