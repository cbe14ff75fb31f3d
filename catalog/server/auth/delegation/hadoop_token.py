"""Delegation tokens in the bytes of Hadoop's classes Token and AbstractDelegationTokenIdentifier.

Whole numbers have Hadoop's variable length: one byte from -112 to 127, otherwise a byte with sign and length, and the
magnitude with the highest byte first. A text is the length of its UTF-8 and that. An identifier is

    version 0 | owner | renewer | real user | issue date | maximum date | sequence number | id of the master key

with dates in milliseconds since the epoch. A token is

    length, identifier | length, password | kind | service

Clients exchange it as URL-safe Base64 without padding (Token.encodeToUrlString). The password is the HMAC-SHA1 of the
identifier by the master key.
"""

import base64
import hashlib
import hmac
from dataclasses import dataclass, field

from interbed.storage.base.decoding import bytes_of_base64url

KIND = "HIVE_DELEGATION_TOKEN"
"""The kind of the tokens of Hive's metastores, by which clients find them among a user's."""

TOKEN_CHARACTERS_MAX = 8 * 1024
"""The longest text of a token: three names of 256 characters, and the rest."""

SEQUENCE_MAX = 2**31 - 1
"""The last sequence number and the last id of a key that Hadoop's classes hold."""

_VERSION = 0


class TokenFormatError(ValueError):
    """The bytes are no delegation token of Hive's metastores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenIdentifier:
    """Owner, dates and numbers of a token. `real_user` is the user that asked for it where that is not the owner, empty
    otherwise. Dates are milliseconds since the epoch.
    """

    owner: str
    renewer: str
    real_user: str
    issued_at: int
    max_at: int
    sequence: int
    key_id: int

    def to_bytes(self) -> bytes:
        """Return the bytes of the identifier."""
        numbers = (self.issued_at, self.max_at, self.sequence, self.key_id)
        return b"".join(
            (
                bytes((_VERSION,)),
                *(_text(each) for each in (self.owner, self.renewer, self.real_user)),
                *(_number(each) for each in numbers),
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "TokenIdentifier":
        """Return the identifier in some bytes. TokenFormatError unless they are the bytes that `to_bytes` returns."""
        reader = _Reader(data)
        if reader.take(1) != bytes((_VERSION,)):
            raise TokenFormatError("the identifier of the token has another version than 0")
        owner, renewer, real_user = (reader.text() for _ in range(3))
        issued_at, max_at, sequence, key_id = (reader.number() for _ in range(4))
        found = cls(
            owner=owner,
            renewer=renewer,
            real_user=real_user,
            issued_at=issued_at,
            max_at=max_at,
            sequence=sequence,
            key_id=key_id,
        )
        # Numbers have several forms: an identifier that is accepted has one.
        if found.to_bytes() != data:
            raise TokenFormatError("the identifier of the token has bytes after its end, or another form of a number")
        return found

    def password(self, secret: bytes) -> bytes:
        """Return the password of the token by the secret of its master key."""
        return hmac.digest(secret, self.to_bytes(), hashlib.sha1)


@dataclass(frozen=True, slots=True, kw_only=True)
class HadoopToken:
    """A token as clients have it. `service` is set by clients, which find a token by it."""

    identifier: TokenIdentifier
    password: bytes = field(repr=False)
    service: str = ""

    def to_text(self) -> str:
        """Return the text of the token. It has the password."""
        identifier = self.identifier.to_bytes()
        data = b"".join(
            (
                _number(len(identifier)) + identifier,
                _number(len(self.password)) + self.password,
                _text(KIND),
                _text(self.service),
            )
        )
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")

    @classmethod
    def from_text(cls, text: str) -> "HadoopToken":
        """Return the token of a text. TokenFormatError."""
        reader = _Reader(_decoded(text))
        identifier, password = (reader.take(reader.length()) for _ in range(2))
        kind, service = reader.text(), reader.text()
        reader.end()
        if kind != KIND:
            raise TokenFormatError(f"the token is of the kind {kind!a:.60}; the kind of this server's is {KIND}")
        return cls(identifier=TokenIdentifier.from_bytes(identifier), password=password, service=service)


def shown_sequence(text: str) -> str:
    """Return the sequence number in the text of a token, for logs; it is not verified."""
    try:
        return str(HadoopToken.from_text(text).identifier.sequence)
    except TokenFormatError:
        return "not a token"


def _decoded(text: str) -> bytes:
    if len(text) > TOKEN_CHARACTERS_MAX:
        raise TokenFormatError(f"the text of the token has {len(text)} characters; allowed are {TOKEN_CHARACTERS_MAX}")
    # Java's decoder takes the padding and line ends that some clients add.
    plain = text.strip().rstrip("=")
    if not plain:
        raise TokenFormatError("the text of the token is not URL-safe Base64")
    try:
        return bytes_of_base64url(plain)
    except ValueError as error:
        raise TokenFormatError("the text of the token is not URL-safe Base64") from error


def _text(value: str) -> bytes:
    data = value.encode()
    return _number(len(data)) + data


def _number(value: int) -> bytes:
    if -112 <= value <= 127:
        return value.to_bytes(1, "big", signed=True)
    first, magnitude = (-112, value) if value >= 0 else (-120, ~value)
    size = (magnitude.bit_length() + 7) // 8
    return (first - size).to_bytes(1, "big", signed=True) + magnitude.to_bytes(size, "big")


class _Reader:
    """Reads values from the front of some bytes. TokenFormatError where they end too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        if len(found) < count:
            raise TokenFormatError("the token is cut off")
        self._at += count
        return found

    def number(self) -> int:
        first = int.from_bytes(self.take(1), "big", signed=True)
        if first >= -112:
            return first
        is_negative = first < -120
        magnitude = int.from_bytes(self.take(-first - (120 if is_negative else 112)), "big")
        return ~magnitude if is_negative else magnitude

    def length(self) -> int:
        found = self.number()
        if found < 0:
            raise TokenFormatError("a length in the token is negative")
        return found

    def text(self) -> str:
        try:
            return self.take(self.length()).decode()
        except UnicodeDecodeError as error:
            raise TokenFormatError("a text in the token is not UTF-8") from error

    def end(self) -> None:
        if self._at < len(self._data):
            raise TokenFormatError("there are bytes after the token")
