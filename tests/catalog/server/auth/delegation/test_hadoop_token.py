"""Delegation tokens in the bytes of Hadoop's classes."""

import base64
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.catalog.server.auth.delegation.hadoop_token import (
    KIND,
    TOKEN_CHARACTERS_MAX,
    HadoopToken,
    TokenFormatError,
    TokenIdentifier,
    shown_sequence,
)

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
NUMBERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([-113, -112, -1, 0, 127, 128, 255, 256]))
IDENTIFIERS = st.builds(
    TokenIdentifier,
    owner=NAMES,
    renewer=NAMES,
    real_user=NAMES,
    issued_at=NUMBERS,
    max_at=NUMBERS,
    sequence=NUMBERS,
    key_id=NUMBERS,
)
ANNS = TokenIdentifier(
    owner="ann",
    renewer="hive",
    real_user="",
    issued_at=1_800_000_000_000,
    max_at=1_800_604_800_000,
    sequence=17,
    key_id=300,
)


@given(IDENTIFIERS)
def test_an_identifier_is_read_as_it_was_written(identifier: TokenIdentifier) -> None:
    assert TokenIdentifier.from_bytes(identifier.to_bytes()) == identifier


@given(IDENTIFIERS, st.binary(max_size=30), NAMES)
def test_a_token_is_read_as_it_was_written(identifier: TokenIdentifier, password: bytes, service: str) -> None:
    token = HadoopToken(identifier=identifier, password=password, service=service)
    text = token.to_text()
    assert HadoopToken.from_text(text) == token
    assert HadoopToken.from_text(text + "=" * (-len(text) % 4) + "\r\n") == token


def test_numbers_have_hadoops_variable_length() -> None:
    data = ANNS.to_bytes()
    assert data[:10] == b"\x00\x03ann\x04hive"
    assert data[10:] == (
        b"\x00"  # No real user.
        + b"\x8a"
        + (1_800_000_000_000).to_bytes(6, "big")
        + b"\x8a"
        + (1_800_604_800_000).to_bytes(6, "big")
        + b"\x11"
        + b"\x8e\x01\x2c"
    )


def test_a_cut_or_prolonged_token_is_refused() -> None:
    whole = base64.urlsafe_b64decode(HadoopToken(identifier=ANNS, password=b"p" * 20).to_text() + "==")
    for end in range(len(whole)):
        with pytest.raises(TokenFormatError):
            HadoopToken.from_text(base64.urlsafe_b64encode(whole[:end]).decode())
    with pytest.raises(TokenFormatError, match="after the token"):
        HadoopToken.from_text(base64.urlsafe_b64encode(whole + b"\0").decode())
    for end in range(len(ANNS.to_bytes())):
        with pytest.raises(TokenFormatError):
            TokenIdentifier.from_bytes(ANNS.to_bytes()[:end])


def test_an_identifier_has_one_form() -> None:
    data = ANNS.to_bytes()
    assert data[-4:-3] == b"\x11"
    # The sequence number in two bytes, where one is enough.
    longer = data[:-4] + b"\x8f\x11" + data[-3:]
    with pytest.raises(TokenFormatError, match="another form"):
        TokenIdentifier.from_bytes(longer)
    with pytest.raises(TokenFormatError, match="after its end"):
        TokenIdentifier.from_bytes(data + b"\0")
    with pytest.raises(TokenFormatError, match="version"):
        TokenIdentifier.from_bytes(b"\1" + data[1:])


@pytest.mark.parametrize(
    "text", ["", "=", "a b", "a+b/", "A" * (TOKEN_CHARACTERS_MAX + 1), "A", "\udc80", "jé", "AAAA", "iv__________8"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(TokenFormatError):
        HadoopToken.from_text(text)
    assert shown_sequence(text) == "not a token"


def test_a_token_of_another_kind_is_refused() -> None:
    text = HadoopToken(identifier=ANNS, password=b"").to_text()
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    other = base64.urlsafe_b64encode(data.replace(KIND.encode(), b"HDFS_DELEGATION_TOKEN")).decode()
    with pytest.raises(TokenFormatError, match="of the kind 'HDFS_DELEGATION_TOKEN'"):
        HadoopToken.from_text(other)


def test_mutated_bytes_raise_nothing_else() -> None:
    chance, whole = Random(3), HadoopToken(identifier=ANNS, password=b"p" * 20).to_text()
    for _ in range(3000):
        at = chance.randrange(len(whole))
        text = whole[:at] + chance.choice("AZaz09-_") + whole[at + chance.choice((0, 1, 2)) :]
        try:
            HadoopToken.from_text(text)
        except TokenFormatError:
            continue


def test_the_password_is_that_of_the_identifier() -> None:
    known = ANNS.password(b"k" * 32)
    assert len(known) == 20
    assert ANNS.password(b"K" * 32) != known
    assert replace(ANNS, owner="bob").password(b"k" * 32) != known
    token = HadoopToken(identifier=ANNS, password=known)
    assert shown_sequence(token.to_text()) == "17"
    assert repr(known) not in repr(token)
