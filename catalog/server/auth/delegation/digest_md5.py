"""The SASL mechanism DIGEST-MD5 (RFC 2831) with delegation tokens, as Hadoop's clients use it.

The user name is the Base64 of a token's identifier, the password that of its password, and the realm is `default`. The
server sends a challenge with a nonce. The client answers with the hash of nonce, a nonce of its own, and the password.
The server answers with a hash by which the client knows that the server has the password, too. A nonce is good for one
answer with the count 1: the server keeps no session that could be continued.

Further frames may be protected (RFC 2831, 2.3 and 2.4), by `auth-int` or `auth-conf`. A protected frame is the message,
ten bytes of its HMAC-MD5, the type 1 in two bytes, and the number of the frame in four. With `auth-conf` the message
and the HMAC are encrypted, and padded to whole blocks. Each direction has keys and numbers of its own, so that a frame
that was repeated, left out or sent back is noticed. The ciphers are those of the RFC, rc4 and 3des, which are weak
today: TLS protects better. The others of the RFC have shorter keys and are not offered.
"""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from interbed.catalog.server.auth.authentication import (
    ClientIdentity,
    NegotiationError,
    ProtectionError,
    SaslChallenge,
    SaslStatus,
    SaslSuccess,
)
from interbed.catalog.server.auth.delegation.tokens import DelegationTokenService, TokenOwner
from interbed.catalog.server.auth.principals import AuthenticationError
from interbed.storage.base.decoding import bytes_of_base64
from interbed.storage.base.errors import is_installed

CIPHERS = ("3des", "rc4")
"""The ciphers that are offered."""

_MAC_BYTES = 10
_TYPE = b"\0\1"
_NUMBER_BYTES = 4
_TAIL_BYTES = len(_TYPE) + _NUMBER_BYTES
_BLOCK_BYTES = {"3des": 8, "rc4": 1}
_CLIENT, _SERVER = "client-to-server", "server-to-client"


class FrameCipher(Protocol):
    """Encryption or decryption of the frames of one direction, one after the other."""

    def update(self, data: bytes) -> bytes: ...


def has_ciphers() -> bool:
    """Return whether the library of the ciphers is installed."""
    return is_installed("cryptography")


class ProtectedFrames:
    """Integrity of the frames of one connection, by the hash H(A1) of its exchange."""

    def __init__(self, key: bytes) -> None:
        self._incoming = _FrameSignatures(
            _keyed_hash(key, f"Digest session key to {_CLIENT} signing key magic constant")
        )
        self._outgoing = _FrameSignatures(
            _keyed_hash(key, f"Digest session key to {_SERVER} signing key magic constant")
        )

    def wrap(self, message: bytes) -> bytes:
        """Return the content of a frame with a message of the server."""
        mac, tail = self._outgoing.next(message)
        return message + mac + tail

    def unwrap(self, frame: bytes) -> bytes:
        """Return the message in the content of a client's frame. ProtectionError."""
        end = len(frame) - _MAC_BYTES - _TAIL_BYTES
        if end < 0:
            raise ProtectionError(f"a protected frame has {len(frame)} bytes, fewer than its protection")
        message = frame[:end]
        self._incoming.check(message, frame[end : end + _MAC_BYTES], frame[end + _MAC_BYTES :])
        return message


class ConfidentialFrames:
    """Confidentiality and integrity of the frames of one connection, by H(A1) and one of CIPHERS."""

    def __init__(self, key: bytes, cipher: str) -> None:
        self._incoming = _FrameSignatures(
            _keyed_hash(key, f"Digest session key to {_CLIENT} signing key magic constant")
        )
        self._outgoing = _FrameSignatures(
            _keyed_hash(key, f"Digest session key to {_SERVER} signing key magic constant")
        )
        self._decryptor = _cipher(cipher, _sealing_key(key, _CLIENT), decrypts=True)
        self._encryptor = _cipher(cipher, _sealing_key(key, _SERVER), decrypts=False)
        self._block_bytes = _BLOCK_BYTES[cipher]

    def wrap(self, message: bytes) -> bytes:
        """Return the content of a frame with a message of the server."""
        mac, tail = self._outgoing.next(message)
        padding = b""
        if self._block_bytes > 1:
            count = self._block_bytes - (len(message) + _MAC_BYTES) % self._block_bytes
            padding = bytes((count,)) * count
        return self._encryptor.update(message + padding + mac) + tail

    def unwrap(self, frame: bytes) -> bytes:
        """Return the message in the content of a client's frame. ProtectionError."""
        sealed, tail = frame[:-_TAIL_BYTES], frame[-_TAIL_BYTES:]
        if len(sealed) < _MAC_BYTES or len(sealed) % self._block_bytes:
            raise ProtectionError(f"a protected frame of {len(frame)} bytes has no whole blocks of its cipher")
        opened = self._decryptor.update(sealed)
        message, mac = opened[:-_MAC_BYTES], opened[-_MAC_BYTES:]
        if self._block_bytes > 1:
            count = message[-1] if message else 0
            # The padding is not under the HMAC: a wrong one makes another message, which the HMAC does not fit.
            message = message[: len(message) - min(max(count, 1), self._block_bytes)]
        self._incoming.check(message, mac, tail)
        return message


class _FrameSignatures:
    """The signatures of the frames of one direction."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._number = 0

    def next(self, message: bytes) -> tuple[bytes, bytes]:
        """Return the HMAC of the next frame, and the end of the frame."""
        number = self._number.to_bytes(_NUMBER_BYTES, "big")
        self._number = (self._number + 1) % 2**32
        return self._mac(number, message), _TYPE + number

    def check(self, message: bytes, mac: bytes, tail: bytes) -> None:
        """Raise ProtectionError unless these are the HMAC and the end of the next frame."""
        expected, end = self.next(message)
        if not hmac.compare_digest(mac + tail, expected + end):
            raise ProtectionError("a protected frame is not authentic, or not the next one of its connection")

    def _mac(self, number: bytes, message: bytes) -> bytes:
        return hmac.digest(self._key, number + message, hashlib.md5)[:_MAC_BYTES]


def _sealing_key(key: bytes, direction: str) -> bytes:
    return _keyed_hash(key, f"Digest H(A1) to {direction} sealing key magic constant")


def _keyed_hash(key: bytes, constant: str) -> bytes:
    return hashlib.md5(key + constant.encode("ascii"), usedforsecurity=False).digest()


def _cipher(name: str, key: bytes, *, decrypts: bool) -> FrameCipher:
    # Needs the library of an extra.
    from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4, TripleDES
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.modes import CBC

    if name == "rc4":
        found = Cipher(ARC4(key), mode=None)
        return found.decryptor() if decrypts else found.encryptor()
    # Two keys of 56 bits, of which the first is used twice; the vector is the end of the key.
    first, second = _des_key(key[:7]), _des_key(key[7:14])
    chained = Cipher(TripleDES(first + second + first), CBC(key[8:]))
    return chained.decryptor() if decrypts else chained.encryptor()


def _des_key(bits: bytes) -> bytes:
    """Return a key of eight bytes with 56 bits in the upper seven bits of each, and odd parity."""
    whole = int.from_bytes(bits, "big")
    parts = [whole >> 7 * (7 - index) & 0x7F for index in range(8)]
    return bytes(part << 1 | (part.bit_count() + 1) % 2 for part in parts)


DIGEST_MD5 = "DIGEST-MD5"
"""The name of the mechanism."""

REALM = "default"
"""The realm and the name of the server in the `digest-uri`, of Hadoop's SaslRpcServer."""

RESPONSE_BYTES_MAX = 4096
"""The longest response (RFC 2831, 2.1.2)."""

BUFFER_BYTES = 2**24 - 1
"""The longest protected frame in the challenge. The port has a limit of its own for messages."""

_NONCE_BYTES = 24
_BLANKS = r"[ \t\r\n]*"
_DIRECTIVE = re.compile(
    rf"{_BLANKS}([\w!#$%&'*+.^`|~-]+){_BLANKS}={_BLANKS}"
    rf'(?:"((?:[^"\\]|\\.)*)"|([^\s",\\]+)){_BLANKS}(?:,|\Z)',
    re.DOTALL | re.ASCII,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_NEEDED = ("username", "nonce", "cnonce", "nc", "digest-uri", "response")
_FIRST_COUNT = "00000001"
_NO_BODY = ":" + "0" * 32
_REFUSED = "The delegation token is not valid"


class DigestQuality(StrEnum):
    """Qualities of protection: of the exchange alone, of the integrity of all frames, of their confidentiality too."""

    AUTH = "auth"
    INTEGRITY = "auth-int"
    CONFIDENTIALITY = "auth-conf"


PasswordOf = Callable[[bytes], tuple[bytes, ClientIdentity]]
"""Returns the password of a token by the bytes of its identifier, and the identity of a client that has proven it;
may do I/O. AuthenticationError.
"""


class DigestMd5Mechanism:
    """DIGEST-MD5 with the delegation tokens of the server. `qualities` are those that are offered."""

    response_bytes_max = RESPONSE_BYTES_MAX
    is_quick = False

    def __init__(self, tokens: DelegationTokenService, qualities: tuple[DigestQuality, ...] | None = None) -> None:
        self._tokens = tokens
        self._qualities = offered_qualities() if qualities is None else qualities

    def start(self, peer: str) -> "DigestMd5Exchange":
        """Return a new exchange."""
        return DigestMd5Exchange(self._password, self._qualities)

    def _password(self, identifier: bytes) -> tuple[bytes, ClientIdentity]:
        return self._tokens.password(identifier), TokenOwner(tokens=self._tokens, identifier=identifier)


def offered_qualities() -> tuple[DigestQuality, ...]:
    """Return the qualities that this installation has: confidentiality needs the library of an extra."""
    return tuple(each for each in DigestQuality if each is not DigestQuality.CONFIDENTIALITY or has_ciphers())


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestResponse:
    """The response of a client, by its directives."""

    username: str
    nonce: str
    cnonce: str
    count: str
    uri: str
    realm: str
    quality: str
    cipher: str | None
    authorization: str | None
    response: str

    @classmethod
    def parsed(cls, data: bytes) -> "DigestResponse":
        """Return the response in the bytes of a client. NegotiationError."""
        found = _directives(data)
        missing = [name for name in _NEEDED if name not in found]
        if missing:
            raise _bad(f"The response of DIGEST-MD5 has no {missing[0]}")
        if found.get("charset", "utf-8").lower() != "utf-8":
            raise _bad("The response of DIGEST-MD5 has another charset than utf-8")
        if not found.get("maxbuf", "65536").isdecimal():
            raise _bad("The maxbuf of DIGEST-MD5 is not a number")
        return cls(
            username=found["username"],
            nonce=found["nonce"],
            cnonce=found["cnonce"],
            count=found["nc"],
            uri=found["digest-uri"],
            realm=found.get("realm", ""),
            quality=found.get("qop", DigestQuality.AUTH),
            cipher=found.get("cipher"),
            authorization=found.get("authzid"),
            response=found["response"],
        )

    def session_key(self, secret: str) -> bytes:
        """Return H(A1) of the exchange by the secret of both sides."""
        named = _hash(f"{self.username}:{self.realm}:{secret}".encode())
        rest = f":{self.nonce}:{self.cnonce}"
        if self.authorization is not None:
            rest += f":{self.authorization}"
        return _hash(named + rest.encode())

    def digest(self, key: bytes, method: str) -> str:
        """Return the hash of the exchange: of the client with the method AUTHENTICATE, of the server with none."""
        uri = f"{method}:{self.uri}" + (_NO_BODY if self.quality != DigestQuality.AUTH else "")
        parts = (key.hex(), self.nonce, self.count, self.cnonce, self.quality, _hash(uri.encode()).hex())
        return _hash(":".join(parts).encode()).hex()


class DigestMd5Exchange:
    """The exchange of DIGEST-MD5: an empty response, a challenge, and the response to it."""

    def __init__(self, password_of: PasswordOf, qualities: tuple[DigestQuality, ...]) -> None:
        self._password_of = password_of
        self._qualities = qualities
        self._nonce: str | None = None
        self._is_over = False

    def respond(self, response: bytes) -> SaslChallenge | SaslSuccess:
        """Evaluate a response of the client. AuthenticationError, NegotiationError."""
        if self._is_over:
            raise NegotiationError(SaslStatus.ERROR, "The exchange of DIGEST-MD5 is over")
        if self._nonce is None:
            if response:
                self._is_over = True
                raise _bad("A client of DIGEST-MD5 begins with an empty response: no earlier session is continued")
            self._nonce = secrets.token_urlsafe(_NONCE_BYTES)
            return SaslChallenge(payload=self._challenge(self._nonce))
        # Whatever the answer is, the nonce is used up.
        self._is_over = True
        given = DigestResponse.parsed(response)
        quality = self._checked(given, self._nonce)
        password, identity = self._password_of(_identifier(given.username))
        key = given.session_key(base64.b64encode(password).decode("ascii"))
        if not hmac.compare_digest(given.digest(key, "AUTHENTICATE"), given.response):
            raise AuthenticationError(_REFUSED)
        protection: ProtectedFrames | ConfidentialFrames | None = None
        if quality is DigestQuality.INTEGRITY:
            protection = ProtectedFrames(key)
        elif quality is DigestQuality.CONFIDENTIALITY:
            assert given.cipher is not None
            protection = ConfidentialFrames(key, given.cipher)
        return SaslSuccess(
            identity=identity, payload=f"rspauth={given.digest(key, '')}".encode(), protection=protection
        )

    def _challenge(self, nonce: str) -> bytes:
        directives = [
            f'realm="{REALM}"',
            f'nonce="{nonce}"',
            f'qop="{",".join(self._qualities)}"',
            "charset=utf-8",
            "algorithm=md5-sess",
            f"maxbuf={BUFFER_BYTES}",
        ]
        if DigestQuality.CONFIDENTIALITY in self._qualities:
            directives.append(f'cipher="{",".join(CIPHERS)}"')
        return ",".join(directives).encode()

    def _checked(self, given: DigestResponse, nonce: str) -> DigestQuality:
        """Return the quality that the client has chosen. NegotiationError for a response to another challenge."""
        if not hmac.compare_digest(given.nonce.encode(), nonce.encode()) or given.count != _FIRST_COUNT:
            raise _bad("The response of DIGEST-MD5 is not to the challenge of this connection")
        if given.realm != REALM or given.uri.split("/")[1:] != [REALM]:
            raise _bad(f"The realm and the server in the response of DIGEST-MD5 are others than {REALM}")
        if given.authorization not in (None, "", given.username):
            raise _bad("The owner of a delegation token cannot act for another user")
        quality = next((each for each in self._qualities if each == given.quality), None)
        if quality is None:
            raise _bad(
                f"The quality of protection {given.quality!a:.40} is not offered; offered are "
                f"{', '.join(self._qualities)}"
            )
        is_confidential = quality is DigestQuality.CONFIDENTIALITY
        if given.cipher not in (CIPHERS if is_confidential else (None, *CIPHERS)):
            raise _bad(f"The cipher {given.cipher!a:.40} is not offered; offered are {', '.join(CIPHERS)}")
        return quality


def _directives(data: bytes) -> Mapping[str, str]:
    """Return the directives of a response by their names in lower case, each at most once. NegotiationError."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise _bad("The response of DIGEST-MD5 is not UTF-8") from error
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _DIRECTIVE.match(text, at)
        if match is None:
            raise _bad("The response of DIGEST-MD5 is not a list of directives")
        name = match[1].lower()
        if name in found:
            raise _bad(f"The response of DIGEST-MD5 has {name:.40} twice")
        found[name] = match[3] if match[2] is None else _ESCAPE.sub(r"\1", match[2])
        at = match.end()
    return found


def _identifier(username: str) -> bytes:
    """Return the bytes of a token's identifier by the user name. AuthenticationError."""
    try:
        return bytes_of_base64(username)
    except ValueError as error:
        raise AuthenticationError(_REFUSED) from error


def _hash(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _bad(text: str) -> NegotiationError:
    return NegotiationError(SaslStatus.BAD, text)
