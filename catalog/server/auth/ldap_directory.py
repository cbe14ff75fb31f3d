"""Passwords of an LDAP directory (RFC 4511): a bind as the user, and a search for the user's groups.

The name that is bound is made of a pattern, or found by a search. Names are escaped for the place that they are put in
(RFC 4514, RFC 4515). Directories compare names without case and in other normal forms, so the principal is the name in
lower case, and names that a directory would fold further are refused. Connections use TLS, except to loopback;
referrals are not followed, because they would send the password elsewhere.
"""

import re
import secrets
import ssl
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import ldap3
from ldap3.core.exceptions import LDAPException
from ldap3.core.results import RESULT_INVALID_CREDENTIALS, RESULT_NO_SUCH_OBJECT
from ldap3.utils.conv import escape_filter_chars
from ldap3.utils.dn import escape_rdn

from interbed.catalog.server.auth.principals import (
    GROUPS_MAX,
    AuthenticationError,
    AuthenticationUnavailableError,
    Mechanism,
    Principal,
    checked_name,
    checked_principal,
)

KEPT_SECONDS = 60.0
"""Time for which a verified password is not verified again."""

CONNECT_SECONDS_MAX = 5.0
ANSWER_SECONDS_MAX = 5

IDLE_MAX = 2
"""Idle connections of the searching entry that are kept."""

PASSWORD_BYTES_MAX = 1024

_REFUSED = "The user or the password is not valid"
_UNAVAILABLE = "The directory of users cannot be asked at present"
_BLANKS = re.compile(r"\s\s|[^\S ]")


@dataclass(frozen=True, slots=True, kw_only=True)
class LdapRules:
    """Places of users and groups. With a `user_dn` users bind by this pattern; else a search finds them."""

    urls: Sequence[str]
    ca: Path | None = None
    user_dn: str | None = None
    user_base: str | None = None
    user_filter: str = "(uid={user})"
    group_base: str | None = None
    group_filter: str = "(member={dn})"
    group_name: str = "cn"
    bind_dn: str | None = None
    bind_password: str | None = field(default=None, repr=False)


class LdapVerifier:
    """Verifies passwords by a directory. Safe for many threads."""

    def __init__(self, rules: LdapRules, *, clock: Callable[[], float] = time.time) -> None:
        self._rules = rules
        self._clock = clock
        self._next_url = 0
        self._guard = threading.Lock()
        self._idle: list[Any] = []

    def verify(self, user: str, password: str) -> tuple[Principal, float]:
        """Return the principal, and the time until which the answer may be kept. AuthenticationError."""
        name = _checked_user(user)
        # A bind with a name and no password succeeds as an anonymous one.
        if not password or len(password.encode()) > PASSWORD_BYTES_MAX:
            raise AuthenticationError(_REFUSED)
        try:
            dn = self._dn(name)
            if dn is None:
                self._bind_in_vain()
                raise AuthenticationError(_REFUSED)
            with self._bound(dn, password) as own:
                groups = self._groups(own, dn, name)
        except (LDAPException, OSError, ssl.SSLError) as error:
            raise AuthenticationUnavailableError(_UNAVAILABLE) from error
        principal = Principal(name=name, mechanism=Mechanism.LDAP, groups=groups)
        return principal, self._clock() + KEPT_SECONDS

    def groups_of(self, user: str) -> frozenset[str]:
        """Return the groups of a user that another mechanism has authenticated; none of a user that is unknown here.

        The searching entry asks for them. AuthenticationError for a name in another form than that of the directory.
        """
        if _checked_user(user) != user:
            # The directory takes it for the name in lower case, which may be another user.
            raise AuthenticationError(
                f"The user {user!a:.300} has capital letters, and the directory of groups has names in lower case; of "
                "principals of Kerberos, kerberos_auth_to_local makes these by the flag /L"
            )
        try:
            dn = self._dn(user)
            return frozenset() if dn is None else self._groups(None, dn, user)
        except (LDAPException, OSError, ssl.SSLError) as error:
            raise AuthenticationUnavailableError(_UNAVAILABLE) from error

    def close(self) -> None:
        """Close the idle connections."""
        with self._guard:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.unbind()

    def _bind_in_vain(self) -> None:
        """Bind as an entry that does not exist, so that an unknown user takes the time of a wrong password."""
        base = self._rules.user_base
        dn = f"cn={secrets.token_hex(16)}{',' if base else ''}{base or ''}"
        with suppress(AuthenticationError), self._bound(dn, secrets.token_hex(16)):
            pass

    def _dn(self, user: str) -> str | None:
        """Return the name that the user binds with, None for an unknown user."""
        rules = self._rules
        if rules.user_dn is not None:
            return rules.user_dn.replace("{user}", escape_rdn(user))
        with self._searching(None) as connection:
            found = self._search(connection, rules.user_base or "", rules.user_filter, "", user, ["1.1"])
        return str(found[0]["dn"]) if len(found) == 1 else None

    def _groups(self, own: Any, dn: str, user: str) -> frozenset[str]:
        rules = self._rules
        if rules.group_base is None:
            return frozenset()
        with self._searching(own) as connection:
            found = self._search(connection, rules.group_base, rules.group_filter, dn, user, [rules.group_name])
        if len(found) > GROUPS_MAX:
            raise AuthenticationError(f"The user has more than {GROUPS_MAX} groups")
        return frozenset(
            checked_name(name, "The name of a group in the directory")
            for entry in found
            for name in _texts(entry["attributes"].get(rules.group_name))
        )

    def _search(
        self, connection: Any, base: str, pattern: str, dn: str, user: str, attributes: list[str]
    ) -> list[dict[str, Any]]:
        # Names are put in at once, so that a name with braces is not filled in again.
        names = {"{user}": escape_filter_chars(user), "{dn}": escape_filter_chars(dn)}
        text = re.sub(r"\{user\}|\{dn\}", lambda match: names[match[0]], pattern)
        _, result, entries, _ = connection.search(base, text, attributes=attributes, size_limit=GROUPS_MAX + 1)
        if result["result"] == RESULT_NO_SUCH_OBJECT:
            return []
        if result["result"] != 0:
            raise AuthenticationUnavailableError(f"{_UNAVAILABLE}: a search ends with {result['description']}")
        return [entry for entry in entries or () if entry["type"] == "searchResEntry"]

    @contextmanager
    def _bound(self, dn: str, password: str) -> Iterator[Any]:
        """Yield a new connection that is bound as an entry. AuthenticationError for a wrong password."""
        connection = self._opened(dn, password)
        try:
            _, result, _, _ = connection.bind()
            if result["result"] in (RESULT_INVALID_CREDENTIALS, RESULT_NO_SUCH_OBJECT):
                raise AuthenticationError(_REFUSED)
            if result["result"] != 0:
                raise AuthenticationUnavailableError(f"{_UNAVAILABLE}: a bind ends with {result['description']}")
            yield connection
        finally:
            connection.unbind()

    @contextmanager
    def _searching(self, own: Any) -> Iterator[Any]:
        """Yield a connection that may search: that of the searching entry, or the user's own."""
        dn, password = self._rules.bind_dn, self._rules.bind_password
        if dn is None and own is not None:
            yield own
            return
        connection = self._borrowed()
        if connection is None:
            connection = self._opened(dn, password)
            _, result, _, _ = connection.bind()
            if result["result"] != 0:
                connection.unbind()
                raise AuthenticationUnavailableError(
                    f"{_UNAVAILABLE}: it does not let the server search ({result['description']})"
                )
        try:
            yield connection
        except BaseException:
            connection.unbind()
            raise
        with self._guard:
            if len(self._idle) < IDLE_MAX:
                self._idle.append(connection)
                return
        connection.unbind()

    def _borrowed(self) -> Any:
        """Return an idle connection that still works, None without one."""
        while True:
            with self._guard:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return None
            try:
                if connection.search("", "(objectClass=*)", ldap3.BASE, attributes=["1.1"])[1]["result"] == 0:
                    return connection
            except (LDAPException, OSError):
                pass
            connection.unbind()

    def _opened(self, dn: str | None, password: str | None) -> Any:
        """Return a connection to the next server that can be reached.

        A pool of ldap3 connects twice, and sleeps for ten seconds after the last server has refused.
        """
        urls = self._rules.urls
        with self._guard:
            first = self._next_url
            self._next_url = (first + 1) % len(urls)
        *others, last = (*urls[first:], *urls[:first])
        for url in others:
            with suppress(LDAPException, OSError):
                return self._opened_at(url, dn, password)
        return self._opened_at(last, dn, password)

    def _opened_at(self, url: str, dn: str | None, password: str | None) -> Any:
        connection = ldap3.Connection(
            # Of its own: ldap3 avoids addresses for seconds after a failure, and threads would share this state.
            _server(url, self._rules.ca),
            dn,
            password,
            authentication=ldap3.ANONYMOUS if dn is None else ldap3.SIMPLE,
            client_strategy=ldap3.SAFE_SYNC,
            auto_referrals=False,
            receive_timeout=ANSWER_SECONDS_MAX,
            raise_exceptions=False,
        )
        try:
            connection.open()
            if connection.server.tls is not None and not connection.server.ssl:
                connection.start_tls()
        except BaseException:
            # ldap3 leaves the socket open when TLS fails.
            if connection.socket is not None:
                connection.socket.close()
            raise
        return connection


def _server(url: str, ca: Path | None) -> Any:
    parts = urlsplit(url)
    is_plain = parts.scheme == "ldap" and parts.hostname in ("localhost", "127.0.0.1", "::1")
    tls = None if is_plain else ldap3.Tls(validate=ssl.CERT_REQUIRED, ca_certs_file=None if ca is None else str(ca))
    return ldap3.Server(
        parts.hostname or "",
        port=parts.port or (636 if parts.scheme == "ldaps" else 389),
        use_ssl=parts.scheme == "ldaps",
        tls=tls,
        get_info=ldap3.NONE,
        connect_timeout=CONNECT_SECONDS_MAX,
    )


def _checked_user(user: str) -> str:
    """Return the name of the principal of a user. AuthenticationError for a name that a directory may fold."""
    checked_principal(user, "The user")
    if unicodedata.normalize("NFKC", user) != user or _BLANKS.search(user) or "\0" in user:
        raise AuthenticationError("The user is not written in the usual form")
    return user.lower()


def _texts(value: Any) -> list[str]:
    """Return the values of an attribute as texts."""
    values = value if isinstance(value, list) else [] if value is None else [value]
    return [each.decode(errors="replace") if isinstance(each, bytes) else str(each) for each in values]
