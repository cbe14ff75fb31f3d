"""The cookies of the console, and the tokens of its forms.

    interbed-console=<secret>        the session
    interbed-console-form=<secret>   forms of a browser without a session: the login, and all where no client logs in

A form repeats a token that follows from the secret of its cookie (HMAC), which a page of another site cannot know. With
TLS the names have the prefix `__Host-`: browsers accept them from this host alone, over TLS. Specified in RFC 6265bis.
"""

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass

from interbed.catalog.server.auth.console_sessions import is_secret_form

Headers = Iterable[tuple[bytes, bytes]]
"""Headers of a request as ASGI has them: names in lower case."""

ROOT = "/console"
"""The path of the console."""

_SESSION, _FORM = "interbed-console", "interbed-console-form"
_PURPOSE = b"interbed console: token of forms"

SECRET_HEADER = "x-interbed-console-secret"
"""Header by which the gate hands a request's secret on to the pages; that of a client is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleCookies:
    """The secrets of a request's cookies; None for a cookie that is missing, or has another form."""

    session: str | None = None
    form: str | None = None


@dataclass(frozen=True, slots=True)
class CookieNames:
    """The cookies of a server; `is_secure` says that its port has TLS."""

    is_secure: bool

    def read(self, headers: Headers) -> ConsoleCookies:
        """Return the secrets of a request. A cookie that is sent twice counts as missing."""
        found: dict[str, list[str]] = {}
        for name, value in headers:
            if name == b"cookie":
                for part in value.decode("latin-1").split(";"):
                    key, _, given = part.strip().partition("=")
                    found.setdefault(key, []).append(given)
        return ConsoleCookies(session=self._secret(found, _SESSION), form=self._secret(found, _FORM))

    def session(self, secret: str) -> tuple[bytes, bytes]:
        """Return the header that keeps the secret of a session in the browser."""
        return self._header(_SESSION, secret)

    def form(self, secret: str) -> tuple[bytes, bytes]:
        """Return the header that keeps the secret of forms in the browser."""
        return self._header(_FORM, secret)

    def ended(self) -> tuple[bytes, bytes]:
        """Return the header that removes the secret of a session from the browser."""
        name, value = self._header(_SESSION, "")
        return name, value + b"; Max-Age=0"

    def _secret(self, found: dict[str, list[str]], name: str) -> str | None:
        values = found.get(self._name(name), [])
        return values[0] if len(values) == 1 and is_secret_form(values[0]) else None

    def _name(self, name: str) -> str:
        return f"__Host-{name}" if self.is_secure else name

    def _header(self, name: str, value: str) -> tuple[bytes, bytes]:
        # The prefix `__Host-` needs the path of the whole host.
        place = "Secure; Path=/" if self.is_secure else f"Path={ROOT}"
        return b"set-cookie", f"{self._name(name)}={value}; {place}; HttpOnly; SameSite=Strict".encode("ascii")


def form_token(secret: str) -> str:
    """Return the token of the forms of a secret."""
    return hmac.digest(secret.encode("ascii"), _PURPOSE, hashlib.sha256).hex()


def is_form_token(given: str, secret: str) -> bool:
    """Return whether a text is the token of the forms of a secret."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), form_token(secret).encode("ascii"))
