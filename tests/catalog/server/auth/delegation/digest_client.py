"""The client's side of DIGEST-MD5 (RFC 2831), written from the RFC, for tests."""

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass, field

from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4, TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.modes import CBC

from interbed.catalog.server.auth.delegation.hadoop_token import HadoopToken


def md5(*parts: bytes | str) -> bytes:
    """Return the hash of some parts, joined by colons."""
    return hashlib.md5(b":".join(part.encode() if isinstance(part, str) else part for part in parts)).digest()


def directives(challenge: bytes) -> dict[str, str]:
    """Return the directives of a challenge."""
    found = re.findall(r'([a-z-]+)=(?:"([^"]*)"|([^,"]*))', challenge.decode())
    return {name: quoted or plain for name, quoted, plain in found}


@dataclass(kw_only=True)
class DigestClient:
    """A client with a user name and a password. `changes` replace directives of its response, None leaves one out."""

    username: str
    password: str
    quality: str = "auth"
    cipher: str | None = None
    uri: str = "null/default"
    cnonce: str = "c2VjcmV0IG5vbmNl"
    changes: dict[str, str | None] = field(default_factory=dict)
    key: bytes = b""
    expected: str = ""
    """The answer of a server that has the password."""

    def respond(self, challenge: bytes) -> bytes:
        """Return the response to a challenge."""
        given = directives(challenge)
        realm, nonce = given["realm"], given["nonce"]
        named = md5(self.username, realm, self.password)
        self.key = md5(named, nonce, self.cnonce)
        suffix = "" if self.quality == "auth" else ":" + "0" * 32

        def digest(method: str) -> str:
            uri = md5(f"{method}:{self.uri}{suffix}").hex()
            return md5(self.key.hex(), nonce, "00000001", self.cnonce, self.quality, uri).hex()

        self.expected = f"rspauth={digest('')}"
        values: dict[str, str | None] = {
            "charset": "utf-8",
            "username": f'"{self.username}"',
            "realm": f'"{realm}"',
            "nonce": f'"{nonce}"',
            "nc": "00000001",
            "cnonce": f'"{self.cnonce}"',
            "digest-uri": f'"{self.uri}"',
            "maxbuf": "65536",
            "response": digest("AUTHENTICATE"),
            "qop": self.quality,
            "cipher": f'"{self.cipher}"' if self.cipher else None,
            **self.changes,
        }
        return ",".join(f"{name}={value}" for name, value in values.items() if value is not None).encode()

    def layer(self) -> "ClientLayer":
        """Return the protection of frames after the exchange."""
        return ClientLayer(self.key, None if self.quality == "auth-int" else self.cipher)


def token_client(text: str, quality: str = "auth", cipher: str | None = None, **changes: str | None) -> DigestClient:
    """Return a client with a delegation token."""
    token = HadoopToken.from_text(text)
    return DigestClient(
        username=base64.b64encode(token.identifier.to_bytes()).decode(),
        password=base64.b64encode(token.password).decode(),
        quality=quality,
        cipher=cipher,
        changes={name.replace("_", "-"): value for name, value in changes.items()},
    )


class ClientLayer:
    """The protection of frames on the client's side."""

    def __init__(self, key: bytes, cipher: str | None) -> None:
        def derived(words: str) -> bytes:
            return hashlib.md5(key + f"Digest {words} key magic constant".encode()).digest()

        self._signing = derived("session key to client-to-server signing")
        self._checking = derived("session key to server-to-client signing")
        self._sent = self._received = 0
        self._encrypt = self._decrypt = None
        self._block = 8 if cipher == "3des" else 1
        if cipher is not None:
            self._encrypt = _cipher(cipher, derived("H(A1) to client-to-server sealing")).encryptor()
            self._decrypt = _cipher(cipher, derived("H(A1) to server-to-client sealing")).decryptor()

    def wrap(self, message: bytes) -> bytes:
        """Return the content of a frame of the client."""
        number = self._sent.to_bytes(4, "big")
        self._sent += 1
        mac = hmac.digest(self._signing, number + message, "md5")[:10]
        content = message + mac
        if self._encrypt is not None:
            count = self._block - len(content) % self._block
            padding = bytes([count]) * count if self._block > 1 else b""
            content = self._encrypt.update(message + padding + mac)
        return content + b"\0\1" + number

    def unwrap(self, frame: bytes) -> bytes:
        """Return the message in a frame of the server."""
        content, tail = frame[:-6], frame[-6:]
        if self._decrypt is not None:
            content = self._decrypt.update(content)
        message, mac = content[:-10], content[-10:]
        if self._decrypt is not None and self._block > 1:
            message = message[: -message[-1]]
        number = self._received.to_bytes(4, "big")
        self._received += 1
        assert tail == b"\0\1" + number
        assert mac == hmac.digest(self._checking, number + message, "md5")[:10]
        return message


def _cipher(name: str, key: bytes) -> "Cipher[CBC] | Cipher[None]":
    if name == "rc4":
        return Cipher(ARC4(key), mode=None)
    halves = []
    for part in (key[:7], key[7:14]):
        bits = "".join(f"{byte:08b}" for byte in part)
        # The lowest bit of each byte is for parity, which the cipher ignores.
        halves.append(bytes(int(bits[at : at + 7] + "0", 2) for at in range(0, 56, 7)))
    return Cipher(TripleDES(halves[0] + halves[1] + halves[0]), CBC(key[-8:]))
