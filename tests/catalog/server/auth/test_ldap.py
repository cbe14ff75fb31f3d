"""Passwords of an LDAP directory: against an LDAP server, and through Thrift's port and HTTP."""

import base64
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

import interbed
from interbed.catalog.client.errors import CatalogAccessError
from interbed.catalog.server.auth.authentication import Authentication
from interbed.catalog.server.auth.ldap_directory import LdapRules, LdapVerifier
from interbed.catalog.server.auth.principals import (
    AuthenticationError,
    AuthenticationUnavailableError,
    Credentials,
    Mechanism,
    Principal,
)
from interbed.catalog.server.setting_kinds import ServerSettingsError
from interbed.catalog.server.settings import load
from tests.catalog.server.auth.test_sasl_plain import options
from tests.support.certificates import make_certificates
from tests.support.servers.ldap_directory import BASE, PASSWORDS, LdapDirectory, ldap_directory
from tests.support.servers.metastore import metastore_under_test
from tests.support.waits import at_most

GROUPS: dict[str, Any] = {"group_base": f"ou=groups,{BASE}"}
SEARCH: dict[str, Any] = {
    "user_base": f"ou=people,{BASE}",
    "bind_dn": f"uid=search,ou=people,{BASE}",
    "bind_password": PASSWORDS["search"],
}
PATTERN: dict[str, Any] = {"user_dn": f"uid={{user}},ou=people,{BASE}"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create the certificate of the LDAP server."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def directory(certificates: Path) -> Iterator[LdapDirectory]:
    """Run an LDAP server."""
    with ldap_directory(certificates) as running:
        yield running


@pytest.fixture(params=["pattern", "search"])
def verifier(request: pytest.FixtureRequest, directory: LdapDirectory) -> Iterator[LdapVerifier]:
    """Return a verifier that binds by a pattern, or after a search."""
    found = PATTERN if request.param == "pattern" else SEARCH
    made = LdapVerifier(LdapRules(urls=[directory.url], **found, **GROUPS), clock=lambda: 100.0)
    yield made
    made.close()


def test_a_password_is_verified_and_groups_are_found(verifier: LdapVerifier) -> None:
    for user in ("ann", "ANN", "ann"):
        assert verifier.verify(user, PASSWORDS["ann"]) == (
            Principal(name="ann", mechanism=Mechanism.LDAP, groups=frozenset({"etl", "admins"})),
            160.0,
        )
    assert verifier.verify("bob", PASSWORDS["bob"])[0].groups == {"etl"}


@pytest.mark.parametrize(
    ("user", "password"),
    [
        ("ann", "wrong"),
        # A directory takes a bind without a password for an anonymous one.
        ("ann", ""),
        ("ann", "x" * 5000),
        ("nobody", "x"),
        ("*", PASSWORDS["ann"]),
        ("a*", PASSWORDS["ann"]),
        ("ann)(objectClass=*", PASSWORDS["ann"]),
        ("ann)(|(uid=*", PASSWORDS["ann"]),
        ("\\61nn", PASSWORDS["ann"]),
        ("ann,ou=people", PASSWORDS["ann"]),
        ("ann+sn=ann", PASSWORDS["ann"]),
        ("{dn}", PASSWORDS["ann"]),
        ("{user}", PASSWORDS["ann"]),
        ("", PASSWORDS["ann"]),
        (" ann", PASSWORDS["ann"]),
        ("ann ", PASSWORDS["ann"]),
        ("\uff41nn", PASSWORDS["ann"]),
        ("ann\0", PASSWORDS["ann"]),
        ("a  nn", PASSWORDS["ann"]),
        ("a" * 300, PASSWORDS["ann"]),
    ],
)
@pytest.mark.attack("SQL and filter injection")
def test_wrong_and_crafted_names_are_refused(verifier: LdapVerifier, user: str, password: str) -> None:
    with pytest.raises(AuthenticationError) as refused:
        verifier.verify(user, password)
    assert not isinstance(refused.value, AuthenticationUnavailableError)
    assert password == "" or password not in str(refused.value)


class CountingLdap(LdapVerifier):
    """A verifier that counts the requests to its directory."""

    def __init__(self, rules: LdapRules) -> None:
        super().__init__(rules)
        self.requests: list[str] = []

    def _opened(self, dn: str | None, password: str | None) -> Any:
        connection = super()._opened(dn, password)
        for name in ("bind", "search"):
            setattr(connection, name, self._counted(name, getattr(connection, name)))
        return connection

    def _counted(self, name: str, request: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.requests.append(name)
            return request(*arguments, **named)

        return counted


@pytest.mark.parametrize("found", [PATTERN, SEARCH], ids=["pattern", "search"])
def test_unknown_users_and_wrong_passwords_take_the_same_requests(
    directory: LdapDirectory, found: dict[str, Any]
) -> None:
    taken, texts = [], set()
    for user in ("ann", "nobody"):
        verifier = CountingLdap(LdapRules(urls=[directory.url], **found, **GROUPS))
        with pytest.raises(AuthenticationError) as refused:
            verifier.verify(user, "guess")
        taken.append(verifier.requests)
        texts.add(str(refused.value))
        verifier.close()
    assert taken[0] == taken[1]
    assert "bind" in taken[0]
    assert len(texts) == 1


@pytest.mark.parametrize("scheme", ["ldaps", "ldap"])
def test_connections_use_verified_tls(directory: LdapDirectory, certificates: Path, scheme: str) -> None:
    # 127.0.0.2 stands for another machine: only the usual names of loopback may go without TLS.
    port = directory.tls_port if scheme == "ldaps" else directory.port
    trusted = LdapRules(urls=[f"{scheme}://localhost:{port}"], ca=certificates / "ca.pem", **PATTERN)
    assert LdapVerifier(trusted).verify("ann", PASSWORDS["ann"])[0].name == "ann"
    for rules in (
        LdapRules(urls=[f"{scheme}://127.0.0.2:{port}"], ca=certificates / "ca.pem", **PATTERN),
        LdapRules(urls=[f"ldaps://localhost:{directory.tls_port}"], **PATTERN),
    ):
        with pytest.raises(AuthenticationUnavailableError):
            LdapVerifier(rules).verify("ann", PASSWORDS["ann"])


def test_a_directory_that_does_not_answer_is_no_wrong_password() -> None:
    with ldap_directory() as running:
        verifier = LdapVerifier(LdapRules(urls=["ldap://127.0.0.1:1", running.url], **SEARCH, **GROUPS))
        assert verifier.verify("ann", PASSWORDS["ann"])[0].name == "ann"
        wrong = {**SEARCH, "bind_password": "wrong"}
        with pytest.raises(AuthenticationUnavailableError, match="does not let the server search"):
            LdapVerifier(LdapRules(urls=[running.url], **wrong)).verify("ann", PASSWORDS["ann"])
    with pytest.raises(AuthenticationUnavailableError):
        verifier.verify("ann", PASSWORDS["ann"])


def test_each_directory_that_refuses_is_asked_once(certificates: Path) -> None:
    asked: list[int] = []

    def refuse(listener: socket.socket, number: int) -> None:
        with suppress(TimeoutError):
            for _ in range(3):
                connection, _ = listener.accept()
                asked.append(number)
                connection.close()

    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        urls = [f"ldaps://127.0.0.1:{each.getsockname()[1]}" for each in listeners]
        verifier = LdapVerifier(LdapRules(urls=urls, ca=certificates / "ca.pem", **PATTERN))
        threads = [
            threading.Thread(target=refuse, args=each, daemon=True) for each in zip(listeners, (0, 1), strict=True)
        ]
        for listener, thread in zip(listeners, threads, strict=True):
            listener.settimeout(at_most(60))
            thread.start()
        for _ in range(2):
            with pytest.raises(AuthenticationUnavailableError):
                verifier.verify("ann", PASSWORDS["ann"])
        assert asked == [0, 1, 1, 0]
        # Threads that still accept connections end with these.
        for url in urls:
            socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=at_most(60)).close()
        for thread in threads:
            thread.join(timeout=at_most(60))


class CountingVerifier:
    """A verifier that knows one password, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def verify(self, user: str, password: str) -> tuple[Principal, float]:
        """Return the principal of the password `right`."""
        self.asked += 1
        if password != "right":
            raise AuthenticationError("wrong")
        return Principal(name=user.lower(), mechanism=Mechanism.LDAP), 60.0


def test_verified_passwords_are_kept_by_user_and_password() -> None:
    now = [0.0]
    passwords = CountingVerifier()
    authentication = Authentication({}, passwords=passwords, clock=lambda: now[0])
    ann, other = Credentials(user="Ann", password="right"), Credentials(user="bob", password="right")
    assert authentication.known(ann) is None
    assert authentication.authenticate(ann).name == "ann"
    known = authentication.known(ann)
    assert known is not None
    assert known.name == "ann"
    assert authentication.known(other) is None
    assert authentication.known(Credentials(user="Ann", password="wrong")) is None
    now[0] = 60.0
    assert authentication.known(ann) is None
    assert passwords.asked == 1
    # What looks like a token is not passed on.
    for token in ("ibt_0123", "eyJhbGciOiJub25lIn0.e30."):
        with pytest.raises(AuthenticationError, match="Tokens of this kind are not accepted here; accepted: ldap"):
            authentication.authenticate(Credentials(user="ann", password=token))
    with pytest.raises(AuthenticationError, match="Tokens of this kind"):
        authentication.authenticate(Credentials(bearer="right"))
    assert passwords.asked == 1


def test_clients_of_thrift_and_http_send_passwords(directory: LdapDirectory, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(PASSWORDS["search"] + "\n")
    settings = (
        *("--authentication", "ldap", "--ldap-url", directory.url, "--ldap-user-base", SEARCH["user_base"]),
        *("--ldap-bind-dn", SEARCH["bind_dn"], "--ldap-bind-password-file", str(secret), "--http-port", "0"),
    )
    with metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path, *settings) as server:
        with interbed.load_catalog("l", **options(server.uri, "ann", token=PASSWORDS["ann"])) as catalog:
            assert catalog.list_databases() == ["default"]
        with (
            pytest.raises(CatalogAccessError, match="The user or the password is not valid"),
            interbed.load_catalog("l", **options(server.uri, "ann", token="wrong password")) as catalog,
        ):
            catalog.list_databases()
        for password, expected in ((PASSWORDS["ann"], 200), ("wrong", 401)):
            header = "Basic " + base64.b64encode(f"ann:{password}".encode()).decode()
            request = urllib.request.Request(f"{server.http}/iceberg/v1/config", headers={"authorization": header})
            try:
                with urllib.request.urlopen(request, timeout=at_most(30)) as response:
                    status = response.status
            except urllib.error.HTTPError as error:
                status = error.code
                error.close()
            assert status == expected
    assert PASSWORDS["ann"] not in (tmp_path / "server.log").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "needs ldap_url"),
        ({"ldap_url": "http://h"}, "another form than ldaps"),
        ({"ldap_url": "ldaps://user:pw@h"}, "another form than ldaps"),
        ({"ldap_url": "ldaps://h"}, "needs ldap_user_dn, or ldap_user_base"),
        ({"ldap_url": "ldaps://h", "ldap_user_dn": "uid=user"}, "without {user}"),
        ({"ldap_url": "ldaps://h", "ldap_user_base": "o=x", "ldap_user_filter": "(a=b)"}, "without {user}"),
        (
            {"ldap_url": "ldaps://h", "ldap_user_base": "o=x", "ldap_group_base": "o=x", "ldap_group_filter": "(a=b)"},
            "every user would have all groups",
        ),
        ({"ldap_url": "ldaps://h", "ldap_user_base": "o=x", "ldap_bind_dn": "o=x"}, "need each other"),
    ],
)
def test_settings_that_do_not_fit_are_refused(arguments: dict[str, str], message: str) -> None:
    with pytest.raises(ServerSettingsError, match=message):
        load(None, {}, {"authentication": "ldap", **arguments})
    with pytest.raises(ServerSettingsError, match="ldap_url is set, and authentication has no ldap"):
        load(None, {}, {"ldap_url": "ldaps://h"})
