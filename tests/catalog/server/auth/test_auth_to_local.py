"""Rules from principals of Kerberos to users, in Hadoop's syntax."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.catalog.server.auth.principals import (
    AuthenticationError,
    AuthToLocal,
    AuthToLocalError,
    KerberosName,
    check_rules,
)

REALM = "EXAMPLE.ORG"


def user(rules: str, principal: str) -> str:
    """Return the user of a principal by rules of a server in REALM."""
    return AuthToLocal(rules, REALM).user(principal)


@pytest.mark.parametrize(
    ("rules", "principal", "expected"),
    [
        ("DEFAULT", "ann@EXAMPLE.ORG", "ann"),
        ("DEFAULT", "hive/host.example.org@EXAMPLE.ORG", "hive"),
        ("DEFAULT/L", "Ann@EXAMPLE.ORG", "ann"),
        ("RULE:[1:$1]", "ann@OTHER.ORG", "ann"),
        ("RULE:[2:$1]", "hive/host@OTHER.ORG", "hive"),
        ("RULE:[2:$1-$2]", "hive/host@OTHER.ORG", "hive-host"),
        ("RULE:[1:$1@$0](.*@OTHER.ORG)s/@.*//", "ann@OTHER.ORG", "ann"),
        ("RULE:[1:$1@$0](.*@OTHER.ORG)s/@.*//\nDEFAULT", "ann@EXAMPLE.ORG", "ann"),
        ("RULE:[2:$1@$0](nn@.*)s/.*/hdfs/ RULE:[2:$1@$0](rm@.*)s/.*/yarn/", "rm/h@X", "yarn"),
        ("RULE:[1:$1](a.*)s/a/b/", "aab@X", "bab"),
        ("RULE:[1:$1](a.*)s/a/b/g", "aab@X", "bbb"),
        ("RULE:[1:$1]/L", "ANN@X", "ann"),
        ("RULE:[1:$1](A.*)s/A/B/g/L", "AnnA@X", "bnnb"),
        ("RULE:[2:$1](app.*)s/(app)-(.*)/$2-$1/", "app-etl/h@X", "etl-app"),
        (r"RULE:[1:$1](.*)s/ann/a\$1/", "ann@X", "a$1"),
        # The expression has to match all of the text.
        ("RULE:[1:$1](nn) DEFAULT", "ann@EXAMPLE.ORG", "ann"),
    ],
)
def test_the_first_rule_that_takes_a_principal_decides(rules: str, principal: str, expected: str) -> None:
    assert user(rules, principal) == expected


@pytest.mark.parametrize(
    ("rules", "principal", "message"),
    [
        ("DEFAULT", "ann@OTHER.ORG", r"No rule .* takes the principal ann@OTHER.ORG; .* the realm EXAMPLE.ORG"),
        ("RULE:[2:$1]", "ann@EXAMPLE.ORG", "No rule"),
        ("RULE:[1:$1]", "hive/host@EXAMPLE.ORG", "No rule"),
        ("RULE:[1:$1@$0]", "ann@X", r"makes 'ann@X' of the principal ann@X, which is no name of a user"),
        ("DEFAULT", "ann", "not of the form"),
        ("DEFAULT", "ann@", "not of the form"),
        ("DEFAULT", "@EXAMPLE.ORG", "not of the form"),
        ("DEFAULT", "a/b/c@EXAMPLE.ORG", "not of the form"),
        # A component that has a separator in it is written with a backslash.
        ("DEFAULT", r"root\/x@EXAMPLE.ORG", "not of the form"),
        ("DEFAULT", r"root\@x@EXAMPLE.ORG", "not of the form"),
        ("DEFAULT", "ann@OTHER.ORG@EXAMPLE.ORG", "not of the form"),
    ],
)
def test_a_principal_that_no_rule_takes_is_refused_by_name(rules: str, principal: str, message: str) -> None:
    with pytest.raises(AuthenticationError, match=message):
        user(rules, principal)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("", "there is no rule"),
        ("default", "is no rule"),
        ("RULE:[1:$1](a", "is no rule"),
        ("RULE:[1:$1](a)s/x", "is no rule"),
        ("DEFAULT anything", "'anything' is no rule"),
        ("RULE:[:$1]", "no number of components"),
        ("RULE:[1:$2]", "uses \\$2, and takes principals of 1 components"),
        ("RULE:[1:$1](*)", "not valid"),
        ("RULE:[1:$1](a)s/(/b/", "not valid"),
        ("RULE:[1:$1](a)s/a/$1/", "replaces by the group \\$1, and its pattern has 0"),
    ],
)
def test_rules_in_another_syntax_are_refused(rules: str, message: str) -> None:
    with pytest.raises(AuthToLocalError, match=message):
        check_rules(rules)


@given(st.text(max_size=40))
def test_any_principal_has_a_simple_user_or_is_refused(principal: str) -> None:
    try:
        found = user("RULE:[1:$1](a.*)s/a/b/ DEFAULT", principal)
    except AuthenticationError:
        return
    assert found
    assert "/" not in found
    assert "@" not in found


def test_names_have_one_or_two_components() -> None:
    name = KerberosName.parse("hive/host@R")
    assert (name.service, name.host, name.realm, str(name)) == ("hive", "host", "R", "hive/host@R")
    assert KerberosName.parse("ann@R").components == ("ann",)
