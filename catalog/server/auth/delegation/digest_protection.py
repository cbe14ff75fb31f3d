"""Protection of the frames after DIGEST-MD5 (RFC 2831, 2.3 and 2.4): `auth-int` and `auth-conf`.

A protected frame is the message, ten bytes of its HMAC-MD5, the type 1 in two bytes, and the number of the frame in
four. With `auth-conf` the message and the HMAC are encrypted, and padded to whole blocks. Each direction has keys and
numbers of its own, so that a frame that was repeated, left out or sent back is noticed.

The ciphers are those of the RFC, rc4 and 3des, which are weak today: TLS protects better. The others of the RFC have
shorter keys and are not offered.
"""

import hashlib
import hmac
from typing import Protocol

from interbed.catalog.server.auth.sasl import ProtectionError
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
        self._incoming = _FrameSignatures(_hash(key, f"Digest session key to {_CLIENT} signing key magic constant"))
        self._outgoing = _FrameSignatures(_hash(key, f"Digest session key to {_SERVER} signing key magic constant"))

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
        self._incoming = _FrameSignatures(_hash(key, f"Digest session key to {_CLIENT} signing key magic constant"))
        self._outgoing = _FrameSignatures(_hash(key, f"Digest session key to {_SERVER} signing key magic constant"))
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
    return _hash(key, f"Digest H(A1) to {direction} sealing key magic constant")


def _hash(key: bytes, constant: str) -> bytes:
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
