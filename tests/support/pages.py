"""Pages of docs/ that describe the code: their Python examples and sessions are run, and their commands must exist."""

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
    """Page of docs/, by its file name."""

    name: str

    @property
    def text(self) -> str:
        """Text of the page."""
        return (DOCS / self.name).read_text(encoding="utf-8")

    def blocks(self, language: str) -> list[str]:
        """Return the code blocks in a language."""
        return re.findall(rf"^```{language}\n(.*?)^```$", self.text, re.DOTALL | re.MULTILINE)

    def run_python(self, **names: Any) -> int:
        """Run the examples with these names defined, and return their number. Raises AssertionError with the
        difference.
        """
        examples = doctest.DocTestParser().get_doctest(
            "".join(self.blocks("python")), dict(names), f"docs/{self.name}", None, None
        )
        output: list[str] = []
        failed, tried = doctest.DocTestRunner(verbose=False).run(examples, out=output.append)
        assert failed == 0, "".join(output)
        return tried

    def run_sql(self, execute: Callable[[str], list[Any]]) -> int:
        """Run the statements in the form of tests.support.sql_script, and return their number."""
        return run_script("\n".join(self.blocks("sql")), execute)

    def run_console(self, run: Callable[[list[str]], str]) -> int:
        """Run the sessions and return their number. A session is a line that starts with `$ interbed`, and its output
        below.

        `run` takes the arguments of a command. `…` in the output matches anything; blanks at the ends of lines are
        ignored.
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
        """Check that the commands and their options exist, and return the number of lines."""
        lines = [line for block in self.blocks("sh") for line in block.splitlines()]
        for line in lines:
            check_command(line)
        return len(lines)


def commands(text: str) -> list[str]:
    """Return the lines of `interbed` in shell blocks, with continued lines joined."""
    blocks = re.findall(r"^ *```(?:shell|sh|bash)\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    lines = [line.strip() for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line.startswith("interbed ")]


def check_command(line: str) -> None:
    """Check that a command and its options exist, up to a pipe or a redirection."""
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
