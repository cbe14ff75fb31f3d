"""Services that act for other users, by the setting proxy_users."""

import pytest

from interbed.catalog.server.auth.impersonation import (
    Impersonation,
    ImpersonationError,
    parsed_proxy_users,
    system_groups,
)
from interbed.catalog.server.auth.principals import Mechanism, Principal

HUE = Principal(name="hue", mechanism=Mechanism.KERBEROS, groups=frozenset({"services"}))
GROUPS = {"ann": frozenset({"analysts"}), "bob": frozenset({"etl"})}
PEER = "10.1.2.3:5000"


def rules(text: str) -> Impersonation:
    """Return the rules of a setting, for users in GROUPS."""
    return Impersonation(parsed_proxy_users(text), lambda user: GROUPS.get(user, frozenset()))


@pytest.mark.parametrize(
    "text",
    [
        "hue.hosts=*;hue.users=*",
        "hue.hosts=*; hue.groups=*",
        "hue.hosts=10.1.2.3; hue.users=bob,ann;",
        "hue.hosts = 192.168.0.0/16, 10.0.0.0/8 ; hue.groups = etl, analysts",
        "other.hosts=*;other.users=*;hue.hosts=10.1.2.3/31;hue.users=ann",
    ],
)
def test_a_service_acts_for_the_users_that_it_may(text: str) -> None:
    acting = rules(text).acting(HUE, "ann", PEER)
    assert (acting.name, acting.real_user, acting.groups) == ("ann", "hue", GROUPS["ann"])
    assert acting.mechanism is Mechanism.KERBEROS


@pytest.mark.parametrize(
    ("text", "user", "message"),
    [
        ("", "ann", "The user hue is not allowed to act for 'ann': proxy_users has no entry for hue"),
        ("other.hosts=*;other.users=*", "ann", "no entry for hue"),
        ("hue.hosts=*", "ann", "neither hue.users nor hue.groups"),
        ("hue.users=*", "ann", "from 10.1.2.3: hue.hosts of proxy_users has another address"),
        ("hue.hosts=*;hue.users=bob", "ann", "not allowed to act for ann"),
        ("hue.hosts=*;hue.groups=etl", "ann", "not allowed to act for ann"),
        ("hue.hosts=*;hue.groups=etl", "unknown-user", "not allowed to act for unknown-user"),
        ("hue.hosts=10.1.2.4,10.2.0.0/16;hue.users=*", "ann", "from 10.1.2.3"),
        ("hue.hosts=not..a.name;hue.users=*", "ann", "from 10.1.2.3"),
        ("hue.hosts=*;hue.users=*", "interbed-optimizer", "the server's own optimizer"),
        ("hue.hosts=*;hue.users=*", " ann", "blanks"),
        ("hue.hosts=*;hue.users=*", "", "is not a name"),
        ("HUE.hosts=*;HUE.users=*", "ann", "no entry for hue"),
    ],
)
def test_other_users_and_hosts_are_refused_by_name(text: str, user: str, message: str) -> None:
    with pytest.raises(ImpersonationError, match=message):
        rules(text).acting(HUE, user, PEER)


def test_a_user_acts_for_itself_without_rules() -> None:
    assert rules("").acting(HUE, "hue", PEER) is HUE


def test_a_user_that_is_acted_for_does_not_act_for_others() -> None:
    every = rules("hue.hosts=*;hue.users=*")
    acting = every.acting(HUE, "ann", PEER)
    with pytest.raises(ImpersonationError, match="no entry for ann"):
        every.acting(acting, "bob", PEER)


def test_hosts_are_names_and_addresses_of_both_families() -> None:
    local = rules("hue.hosts=localhost;hue.users=*")
    assert local.acting(HUE, "ann", "127.0.0.1:1").name == "ann"
    assert local.acting(HUE, "ann", "::ffff:127.0.0.1:1").name == "ann"
    assert rules("hue.hosts=fd00::/8;hue.users=*").acting(HUE, "ann", "fd00::1:5000").name == "ann"
    with pytest.raises(ImpersonationError):
        local.acting(HUE, "ann", "unknown:1")


@pytest.mark.parametrize(
    "text", ["hue", "hue.hosts", "hue.hosts=", "hosts=*", ".hosts=*", "hue.hosts=*;hue.hosts=*", "hue.roles=*", "h=*"]
)
def test_entries_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="each once"):
        parsed_proxy_users(text)
    with pytest.raises(ValueError, match="does not appear"):
        parsed_proxy_users("hue.hosts=10.0.0.0/33")


def test_groups_are_those_of_this_machine() -> None:
    assert "root" in system_groups("root") or "wheel" in system_groups("root")
    assert system_groups("no such user\0") == system_groups("no-such-user") == frozenset()
