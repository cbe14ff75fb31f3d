"""Base 64 of incoming values: each value has one text, and all other texts are refused."""

import contextlib
from base64 import b64encode, urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.catalog.client.cli.forms.text_values import json_converter, value_of_text
from interbed.storage.base.decoding import bytes_of_base64, bytes_of_base64url
from interbed.storage.base.errors import FilterError
from interbed.storage.base.predicate.json import from_json
from interbed.storage.base.types.data_type import AtomicType, TypeRoot

OTHERS = ("QR==", "QQ", "QQ=", "QQ===", "QQ==QQ==", "Q Q==", "QQ==\n", "Q!Q==", "=", "QUJ=", "é", "-_==")
BINARY = AtomicType(TypeRoot.VARBINARY, length=100)


@given(st.binary(max_size=20))
def test_every_value_has_a_text(value: bytes) -> None:
    assert bytes_of_base64(b64encode(value).decode()) == value
    assert bytes_of_base64url(urlsafe_b64encode(value).decode().rstrip("=")) == value


@given(st.text("ABQRefgh+/=-_", max_size=12))
def test_a_text_of_a_value_is_the_only_one(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert b64encode(bytes_of_base64(text)).decode() == text


@pytest.mark.parametrize("text", OTHERS)
def test_other_texts_are_refused_by_every_reader_of_values(text: str) -> None:
    with pytest.raises(ValueError, match="base 64"):
        bytes_of_base64(text)
    convert = json_converter(BINARY)
    assert convert is not None
    with pytest.raises(ValueError, match="base 64"):
        convert(text)
    if text.strip() == text:
        with pytest.raises(ValueError, match="is not a value of type"):
            value_of_text(text, BINARY)


@pytest.mark.parametrize("text", ["QR", "QQ==", "Q+", "Q", "Q!Q", "QQ\n"])
def test_other_texts_for_addresses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="for addresses"):
        bytes_of_base64url(text)


def test_a_filter_in_json_with_another_text_is_refused() -> None:
    good = '{"op":"eq","column":"v","value":{"binary":"QQ=="}}'
    assert str(from_json(good))
    with pytest.raises(FilterError, match="base 64"):
        from_json(good.replace("QQ==", "QR=="))
