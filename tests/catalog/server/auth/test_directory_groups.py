"""Groups from a directory of users that another mechanism has authenticated."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.server.auth.authentication import Authentication
from interbed.catalog.server.auth.impersonation import (
    KEPT_MAX,
    RETRY_SECONDS,
    DirectoryGroups,
    GroupedBearers,
    Impersonation,
    parsed_proxy_users,
)
from interbed.catalog.server.auth.kerberos import KerberosUsers, TicketHolder
from interbed.catalog.server.auth.ldap_directory import LdapRules, LdapVerifier
from interbed.catalog.server.auth.principals import (
    AuthenticationError,
    AuthenticationUnavailableError,
    AuthToLocal,
    Credentials,
    Mechanism,
    Principal,
)
from interbed.catalog.server.setting_kinds import ServerSettingsError
from interbed.catalog.server.settings import load
from tests.catalog.server.auth.test_ldap import GROUPS, PATTERN, SEARCH
from tests.support.certificates import certificate_of
from tests.support.servers.ldap_directory import PASSWORDS, LdapDirectory, ldap_directory

SECONDS = 300.0


@pytest.fixture(scope="module")
def directory() -> Iterator[LdapDirectory]:
    """Run an LDAP server."""
    with ldap_directory() as running:
        yield running


@pytest.fixture(params=["pattern", "search"])
def ldap(request: pytest.FixtureRequest, directory: LdapDirectory) -> Iterator[LdapVerifier]:
    """Return the directory with a searching entry, by a pattern for users or a search."""
    found: dict[str, Any] = {**SEARCH, **(PATTERN if request.param == "pattern" else {})}
    made = LdapVerifier(LdapRules(urls=[directory.url], **found, **GROUPS))
    yield made
    made.close()


class Directory:
    """A directory that a test switches off, with the number of questions."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.answers = True
        self.asked: list[str] = []
        self.groups: dict[str, frozenset[str]] = {}

    def __call__(self, user: str) -> frozenset[str]:
        self.asked.append(user)
        if not self.answers:
            raise AuthenticationUnavailableError("it is down")
        return self.groups.get(user, frozenset({f"of-{user}"}))

    def clock(self) -> float:
        return self.now


@pytest.fixture
def fake() -> Directory:
    """Return a directory in which each user has one group."""
    return Directory()


@pytest.fixture
def groups(fake: Directory) -> DirectoryGroups:
    """Return the groups of that directory."""
    return DirectoryGroups(fake, seconds=SECONDS, clock=fake.clock)


def test_the_searching_entry_finds_groups_without_a_password_of_the_user(ldap: LdapVerifier) -> None:
    assert ldap.groups_of("ann") == {"etl", "admins"}
    assert ldap.groups_of("bob") == {"etl"}
    assert ldap.groups_of("stranger") == frozenset()


@pytest.mark.attack("SQL and filter injection")
@pytest.mark.parametrize(
    "user",
    [
        *("*", "a*", "ann)(objectclass=*", "ann)(|(uid=*", "*)(uid=ann", "\\61nn", "ann\\", "(ann)", "{dn}", "{user}"),
        *("ann,ou=people", "ann+sn=ann", "uid=ann", "bob)(member=*"),
    ],
)
def test_no_crafted_name_gets_the_groups_of_another_user(ldap: LdapVerifier, user: str) -> None:
    assert ldap.groups_of(user) == frozenset()


@pytest.mark.attack("SQL and filter injection")
@pytest.mark.parametrize("user", ["ANN", "Ann", "\uff41nn", "ann\0", "a  nn", " ann", "ann ", "", "a" * 300])
def test_names_that_the_directory_folds_are_refused(ldap: LdapVerifier, user: str) -> None:
    with pytest.raises(AuthenticationError) as refused:
        ldap.groups_of(user)
    assert not isinstance(refused.value, AuthenticationUnavailableError)
    assert "kerberos_auth_to_local makes these by the flag /L" in str(refused.value) or user not in ("ANN", "Ann")


def test_groups_are_kept_for_a_time_and_within_bounds(groups: DirectoryGroups, fake: Directory) -> None:
    for _ in range(3):
        assert groups.of("ann") == {"of-ann"}
    assert fake.asked == ["ann"]
    fake.now += SECONDS - 1
    assert groups.known("ann") == frozenset({"of-ann"})
    fake.now += 1
    assert groups.known("ann") is None
    assert groups.of("ann") == {"of-ann"}
    assert fake.asked == ["ann", "ann"]
    for number in range(KEPT_MAX):
        groups.of(f"user{number}")
    assert groups.known("ann") is None
    assert groups.known(f"user{KEPT_MAX - 1}") is not None


def test_an_outage_refuses_users_when_their_kept_groups_have_ended(
    groups: DirectoryGroups, fake: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    groups.of("ann")
    fake.answers = False
    with caplog.at_level(logging.WARNING), pytest.raises(AuthenticationUnavailableError, match="groups of the user"):
        groups.of("bob")
    assert "the groups of bob cannot be looked up" in caplog.text
    # The directory is not asked by each request, and what is kept is ann's alone.
    with pytest.raises(AuthenticationUnavailableError, match=r"at present; try again$"):
        groups.of("eve")
    assert fake.asked == ["ann", "bob"]
    assert groups.of("ann") == {"of-ann"}
    fake.now += SECONDS
    with pytest.raises(AuthenticationUnavailableError):
        groups.of("ann")
    fake.answers = True
    fake.now += RETRY_SECONDS
    assert groups.of("ann") == {"of-ann"}


def test_a_directory_that_is_down_is_no_empty_one(directory: LdapDirectory) -> None:
    with ldap_directory() as other:
        gone = LdapVerifier(LdapRules(urls=[other.url], **SEARCH, **GROUPS))
        assert gone.groups_of("bob") == {"etl"}
    with pytest.raises(AuthenticationUnavailableError):
        gone.groups_of("bob")
    wrong = LdapVerifier(LdapRules(urls=[directory.url], **{**SEARCH, "bind_password": "wrong"}, **GROUPS))
    with pytest.raises(AuthenticationUnavailableError, match="does not let the server search"):
        wrong.groups_of("bob")


def test_certificates_have_groups_that_are_looked_up_without_blocking(groups: DirectoryGroups, fake: Directory) -> None:
    authentication = Authentication({}, certificates=True, groups=groups)
    presented = Credentials(certificate=certificate_of("ann"))
    assert authentication.known(presented) is None
    assert fake.asked == []
    expected = Principal(name="ann", mechanism=Mechanism.CERTIFICATE, groups=frozenset({"of-ann"}))
    assert authentication.authenticate(presented) == expected
    assert authentication.known(presented) == expected
    fake.answers, fake.now = False, fake.now + SECONDS
    with pytest.raises(AuthenticationUnavailableError):
        authentication.present(presented)


class NamedUsers:
    """A mechanism whose tokens are the names of their users."""

    def verify(self, token: str) -> tuple[Principal, float]:
        """Return the user of a token."""
        return Principal(name=token, mechanism=Mechanism.JWT), 10_000.0


def test_tokens_without_groups_are_kept_no_longer_than_groups(groups: DirectoryGroups) -> None:
    principal, until = GroupedBearers(NamedUsers(), groups, clock=lambda: 5000.0).verify("ann")
    assert (principal.groups, until) == (frozenset({"of-ann"}), 5000.0 + SECONDS)


def test_users_that_services_act_for_have_groups(groups: DirectoryGroups) -> None:
    rules = Impersonation(parsed_proxy_users("hue.hosts=*; hue.groups=of-ann"), groups.of)
    hue = Principal(name="hue", mechanism=Mechanism.KERBEROS)
    assert rules.acting(hue, "ann", "10.0.0.1:5").groups == {"of-ann"}
    with pytest.raises(AuthenticationError, match="not allowed to act for bob"):
        rules.acting(hue, "bob", "10.0.0.1:5")


def test_an_open_connection_by_a_ticket_has_the_groups_of_its_user_by_then(
    groups: DirectoryGroups, fake: Directory
) -> None:
    impersonation = Impersonation(parsed_proxy_users("hue.hosts=*; hue.groups=of-ann"), groups.of)
    users = KerberosUsers(rules=AuthToLocal("DEFAULT", "EXAMPLE.ORG"), groups=groups, impersonation=impersonation)
    principal = users.authorized("ann@EXAMPLE.ORG", "", "10.0.0.1:5")
    own = TicketHolder(principal=principal, users=users, until=fake.now + 2.5 * SECONDS, clock=fake.clock)
    acting = replace(own, principal=users.authorized("hue@EXAMPLE.ORG", "ann", "10.0.0.1:5"), until=None)
    assert [own.known(), own.verified()] == [principal, principal]
    fake.now += SECONDS
    # The answer needs the directory, and is not given on the thread of all connections.
    assert own.known() is None
    fake.groups["ann"] = frozenset({"other"})
    assert own.verified().groups == {"other"}
    assert own.known() == own.verified()
    for look in (acting.known, acting.verified):
        with pytest.raises(AuthenticationError, match="hue is not allowed to act for ann"):
            look()
    fake.answers, fake.now = False, fake.now + SECONDS
    assert own.known() is None
    with pytest.raises(AuthenticationUnavailableError):
        own.verified()
    fake.now += SECONDS / 2
    for look in (own.known, own.verified):
        with pytest.raises(AuthenticationError, match="The ticket has ended"):
            look()


def test_groups_of_a_token_are_not_kept_twice(groups: DirectoryGroups, fake: Directory) -> None:
    groups.of("ann")
    fake.now += SECONDS - 10
    _, until = GroupedBearers(NamedUsers(), groups, clock=lambda: 5000.0).verify("ann")
    assert until == 5010.0


@pytest.fixture
def settings(tmp_path: Path) -> Callable[..., Any]:
    """Return a function that loads settings with groups from a directory, changed by its arguments."""
    (tmp_path / "password").write_text(PASSWORDS["search"])

    def loaded(**changes: str | None) -> Any:
        given: dict[str, str | None] = {
            "authentication": "token",
            "user_groups": "ldap",
            "ldap_url": "ldaps://ldap.example.org",
            "ldap_user_dn": PATTERN["user_dn"],
            "ldap_group_base": GROUPS["group_base"],
            "ldap_bind_dn": SEARCH["bind_dn"],
            "ldap_bind_password_file": str(tmp_path / "password"),
            **changes,
        }
        return load(None, {}, {name: value for name, value in given.items() if value is not None})[0]

    return loaded


def test_settings_name_what_groups_from_a_directory_need(settings: Callable[..., Any]) -> None:
    assert settings().user_groups_seconds == SECONDS
    for changes, message in (
        ({"ldap_url": None}, "user_groups by ldap needs ldap_url"),
        ({"ldap_user_dn": None}, "user_groups by ldap needs ldap_user_dn, or ldap_user_base"),
        ({"ldap_group_base": None}, "user_groups = ldap needs ldap_group_base"),
        ({"ldap_bind_dn": None, "ldap_bind_password_file": None}, "user_groups = ldap needs ldap_bind_dn"),
        ({"ldap_group_filter": "(cn=*)"}, r"neither \{dn\} nor \{user\}"),
        ({"authentication": "none"}, "without authentication the server does not know its users"),
        ({"user_groups": "none"}, "authentication has no ldap; nor is it user_groups"),
    ):
        with pytest.raises(ServerSettingsError, match=message):
            settings(**changes)
