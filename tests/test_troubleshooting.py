"""The troubleshooting page quotes existing messages and commands."""

import re

import pytest

from tests.support.message_texts import has_message
from tests.support.pages import DOCS, check_command

PAGE = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"```text\n(.*?)\n```", PAGE, re.DOTALL)


@pytest.mark.parametrize("text", QUOTED)
def test_a_quoted_message_exists_in_the_code(text: str) -> None:
    assert has_message(text.removesuffix("…").rstrip()), (
        "no message of the code has this text; change the page with the code"
    )


def test_the_page_quotes_messages_and_commands() -> None:
    assert len(QUOTED) >= 18
    commands = [c for c in re.findall(r"`(interbed [^`…]+)`", PAGE) if "NAME" not in c and "|" not in c]
    assert len(commands) >= 5
    for command in commands:
        check_command(command.replace("`", ""))


def test_a_text_that_no_message_has_is_detected() -> None:
    assert not has_message("The moon is made of green cheese")
    # A docstring is not a message.
    assert not has_message("The texts of messages in the code")
