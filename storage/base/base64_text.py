"""Base 64 of values that come in as text: RFC 4648, section 4, in its only canonical form.

A text of another form may stand for the same bytes: its last character has bits that belong to no byte, or characters
of other alphabets are in between. Two texts of one value would be two keys, and a damaged text another value.
"""

from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode


def bytes_of_base64(text: str) -> bytes:
    """Return the bytes of a text with padding. ValueError for a text that no encoder writes."""
    try:
        found = b64decode(text, validate=True)
    except ValueError as error:
        raise ValueError(f"{text[:40]!r} is no text in base 64: {error}") from None
    if b64encode(found).decode("ascii") != text:
        raise ValueError(f"{text[:40]!r} is no text in base 64: its end has bits that belong to no byte")
    return found


def bytes_of_base64url(text: str) -> bytes:
    """Return the bytes of a text in the alphabet for addresses, without padding. ValueError for any other text."""
    try:
        found = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError as error:
        raise ValueError(f"{text[:40]!r} is no text in base 64 for addresses: {error}") from None
    if urlsafe_b64encode(found).decode("ascii").rstrip("=") != text:
        raise ValueError(f"{text[:40]!r} is no text in base 64 for addresses: no encoder writes it")
    return found
