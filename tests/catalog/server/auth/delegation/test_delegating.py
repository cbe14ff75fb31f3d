"""Delegation tokens of a server by its settings: lifetimes, principals of Kerberos, proxy users."""

import pytest

from interbed.catalog.server.auth.delegation.hadoop_token import HadoopToken
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.process.authenticating import delegation_for
from interbed.catalog.server.service.errors import AccessDeniedError, InvalidObjectError
from interbed.catalog.server.settings import ServerSettings
from tests.catalog.server.auth.delegation.issued import ANN, HIVE, PEER, identifier_of


def test_a_server_without_the_mechanism_issues_none(store: SqlRepository) -> None:
    assert delegation_for(ServerSettings(authentication="token"), store) is None


def test_principals_of_kerberos_become_users_and_proxy_users_act_for_others(store: SqlRepository) -> None:
    settings = ServerSettings(
        authentication="kerberos,delegation-token",
        kerberos_principal="hive/here@EXAMPLE.ORG",
        kerberos_auth_to_local="RULE:[1:$1@$0](.*@CORP)s/@.*// DEFAULT",
        proxy_users="hive.hosts=192.0.2.0/24; hive.users=bob",
        delegation_max_seconds=60,
        delegation_renew_seconds=90,
    )
    tokens = delegation_for(settings, store)
    assert tokens is not None
    text = tokens.issue(HIVE, "bob@CORP", "yarn/host@EXAMPLE.ORG", PEER)
    identifier = HadoopToken.from_text(text).identifier
    assert (identifier.owner, identifier.renewer, identifier.real_user) == ("bob", "yarn", "hive")
    assert identifier.max_at - identifier.issued_at == 60_000
    (record,) = tokens.all()
    assert record.renewed_until == identifier.max_at
    owner = tokens.verified(identifier_of(text))
    assert (owner.name, owner.real_user) == ("bob", "hive")
    for caller, user, peer in ((HIVE, "eve", PEER), (ANN, "bob", PEER), (HIVE, "bob", "198.51.100.1:5")):
        with pytest.raises(AccessDeniedError, match=f"{caller.name} is not allowed to act for"):
            tokens.issue(caller, user, "", peer)
    with pytest.raises(InvalidObjectError, match="No rule of kerberos_auth_to_local takes the principal"):
        tokens.issue(HIVE, "bob@ELSEWHERE", "", PEER)
    # A name without a realm is that of a user.
    assert HadoopToken.from_text(tokens.issue(ANN, "ann", "hive", PEER)).identifier.renewer == "hive"
