"""The page of troubleshooting quotes messages that there are, and commands that there are."""

import re

import pytest

from tests.support.message_texts import has_message
from tests.support.pages import DOCS, check_command

PAGE = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"```text\n(.*?)\n```", PAGE, re.DOTALL)


@pytest.mark.parametrize("text", QUOTED)
def test_a_quoted_message_is_one_of_the_code(text: str) -> None:
    assert has_message(text.removesuffix("…").rstrip()), "the code says something else; change the page with it"


def test_the_page_quotes_messages_and_commands() -> None:
    assert len(QUOTED) >= 18
    commands = [c for c in re.findall(r"`(interbed [^`…]+)`", PAGE) if "NAME" not in c and "|" not in c]
    assert len(commands) >= 5
    for command in commands:
        check_command(command.replace("`", ""))


def test_a_text_that_no_message_has_is_found_out() -> None:
    assert not has_message("The moon is made of green cheese")
    # A docstring is no message.
    assert not has_message("The texts of messages in the code")
