"""docs/compaction.md says what the code does: its Python is run, its commands are those that there are."""

import doctest
import re
import shlex
from pathlib import Path

import click

from interbed.cli import main

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "compaction.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_python_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    examples = doctest.DocTestParser().get_doctest(
        "".join(blocks("python")), {"warehouse": tmp_path / "lake"}, "docs/compaction.md", None, None
    )
    told: list[str] = []
    failed, tried = doctest.DocTestRunner(verbose=False).run(examples, out=told.append)
    assert (failed, tried > 30) == (0, True), "".join(told)


def test_the_commands_of_the_page_have_the_options_that_it_names() -> None:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    assert lines
    for line in lines:
        words = shlex.split(line, comments=True)
        assert words[0] == "interbed"
        command: click.Command = main
        context = click.Context(main)
        known: set[str] = set()
        for word in words[1:]:
            if isinstance(command, click.Group) and (found := command.get_command(context, word)) is not None:
                command = found
                known |= {name for p in command.params for name in p.opts}
        assert not isinstance(command, click.Group), line
        assert {word for word in words if word.startswith("-")} <= known, line


def test_the_pictures_of_the_page_are_there() -> None:
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", PAGE)
    assert len(pictures) == 2
    for picture in pictures:
        assert (DOCS / picture).read_bytes().startswith(b"<?xml")
