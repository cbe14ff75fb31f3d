"""The SASL mechanism DIGEST-MD5 (RFC 2831) with delegation tokens, as Hadoop's clients use it.

The user name is the Base64 of a token's identifier, the password that of its password, and the realm is `default`. The
server sends a challenge with a nonce. The client answers with the hash of nonce, a nonce of its own, and the password.
The server answers with a hash by which the client knows that the server has the password, too. A nonce is good for one
answer with the count 1: the server keeps no session that could be continued.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from interbed.catalog.server.auth.delegation.digest_protection import (
    CIPHERS,
    ConfidentialFrames,
    ProtectedFrames,
    has_ciphers,
)
from interbed.catalog.server.auth.delegation.tokens import DelegationTokenService, TokenOwner
from interbed.catalog.server.auth.principals import AuthenticationError
from interbed.catalog.server.auth.sasl import (
    ClientIdentity,
    NegotiationError,
    SaslChallenge,
    SaslStatus,
    SaslSuccess,
)

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
        return base64.b64decode(username.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise AuthenticationError(_REFUSED) from error


def _hash(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _bad(text: str) -> NegotiationError:
    return NegotiationError(SaslStatus.BAD, text)
