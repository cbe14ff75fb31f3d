"""The life of delegation tokens: issue, renewal, cancellation, end, and their master keys."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from interbed.catalog.server.auth.delegation.hadoop_token import HadoopToken
from interbed.catalog.server.auth.delegation.tokens import (
    CHECKED_SECONDS,
    ENDED_SECONDS,
    DelegationRules,
    DelegationTokenService,
    OwnerGroups,
    TokenLifetimes,
)
from interbed.catalog.server.auth.impersonation import Impersonation, parsed_proxy_users
from interbed.catalog.server.auth.issued_tokens import KEPT_MAX
from interbed.catalog.server.auth.principals import (
    AuthenticationError,
    AuthenticationUnavailableError,
    Mechanism,
    Principal,
)
from interbed.catalog.server.database import schema
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.ops.reaper import Reaper
from interbed.catalog.server.service.errors import (
    AccessDeniedError,
    AccessUnavailableError,
    InvalidObjectError,
    MetastoreError,
    NoSuchObjectError,
)
from interbed.catalog.server.service.locks import LockService
from tests.catalog.server.auth.delegation.issued import ANN, BOB, HIVE, PEER, SetClock, identifier_of

DAY = 86400.0


def owner_of(tokens: DelegationTokenService, text: str) -> Principal:
    """Return the owner as a connection by the token gets it."""
    return tokens.verified(identifier_of(text))


def test_a_token_is_its_owners_for_a_day(stored_tokens: DelegationTokenService, clock: SetClock) -> None:
    tokens = stored_tokens
    text = tokens.issue(ANN, "ann", "hive", PEER)
    token = HadoopToken.from_text(text)
    assert (token.identifier.owner, token.identifier.renewer, token.identifier.real_user) == ("ann", "hive", "")
    assert token.identifier.issued_at == clock.now * 1000
    assert token.identifier.max_at == (clock.now + 7 * DAY) * 1000
    assert tokens.password(identifier_of(text)) == token.password
    expected = Principal(
        name="ann",
        mechanism=Mechanism.DELEGATION_TOKEN,
        groups=ANN.groups,
        token_id=str(token.identifier.sequence),
    )
    assert owner_of(tokens, text) == expected
    assert tokens.known(identifier_of(text)) == expected
    clock.now += DAY - 0.5
    assert tokens.known(identifier_of(text)) is None
    assert owner_of(tokens, text) == expected
    clock.now += 0.5
    assert tokens.known(identifier_of(text)) is None
    with pytest.raises(AuthenticationError, match=r"token 1 is not accepted: it has expired"):
        owner_of(tokens, text)


def test_sequence_numbers_are_never_repeated(stored_tokens: DelegationTokenService, clock: SetClock) -> None:
    tokens = stored_tokens
    found = [HadoopToken.from_text(tokens.issue(ANN, "ann", "", PEER)).identifier.sequence for _ in range(3)]
    clock.now += 30 * DAY
    assert tokens.expire() == 3
    assert tokens.all() == []
    found.append(HadoopToken.from_text(tokens.issue(ANN, "ann", "", PEER)).identifier.sequence)
    assert found == [1, 2, 3, 4]


def test_only_the_renewer_prolongs_a_token(tokens: DelegationTokenService, clock: SetClock) -> None:
    text = tokens.issue(ANN, "ann", "hive", PEER)
    max_at = HadoopToken.from_text(text).identifier.max_at
    for caller in (ANN, BOB):
        with pytest.raises(AccessDeniedError, match=f"{caller.name} may not renew the delegation token 1"):
            tokens.renew(caller, text)
    clock.now += DAY / 2
    assert tokens.renew(HIVE, text) == (clock.now + DAY) * 1000
    for _ in range(11):
        clock.now += DAY / 2
        assert tokens.renew(HIVE, text) == min((clock.now + DAY) * 1000, max_at)
        assert owner_of(tokens, text).name == "ann"
    clock.now += DAY
    assert clock.now * 1000 == max_at
    with pytest.raises(AuthenticationError, match="maximum lifetime is over"):
        owner_of(tokens, text)
    with pytest.raises(MetastoreError, match="maximum lifetime is over"):
        tokens.renew(HIVE, text)


def test_an_expired_token_is_not_renewed(tokens: DelegationTokenService, clock: SetClock) -> None:
    text = tokens.issue(ANN, "ann", "hive", PEER)
    clock.now += DAY
    with pytest.raises(MetastoreError, match="it has expired"):
        tokens.renew(HIVE, text)


def test_a_renewal_does_not_shorten_a_token(store: SqlRepository, clock: SetClock) -> None:
    text = DelegationTokenService(store, clock=clock).issue(ANN, "ann", "hive", PEER)
    shorter = DelegationTokenService(
        store, rules=DelegationRules(lifetimes=TokenLifetimes(renew_seconds=60)), clock=clock
    )
    assert shorter.renew(HIVE, text) == (clock.now + DAY) * 1000


def test_a_token_without_a_renewer_is_not_renewed(tokens: DelegationTokenService) -> None:
    text = tokens.issue(ANN, "ann", "", PEER)
    with pytest.raises(AccessDeniedError, match="has no renewer"):
        tokens.renew(ANN, text)


@pytest.mark.parametrize("caller", [ANN, HIVE])
def test_owner_and_renewer_cancel_a_token(tokens: DelegationTokenService, caller: Principal) -> None:
    text = tokens.issue(ANN, "ann", "hive", PEER)
    with pytest.raises(AccessDeniedError, match="bob may not cancel the delegation token 1"):
        tokens.cancel(BOB, text)
    assert owner_of(tokens, text).name == "ann"
    tokens.cancel(caller, text)
    with pytest.raises(AuthenticationError, match="it was cancelled"):
        owner_of(tokens, text)
    for again in (lambda: tokens.cancel(caller, text), lambda: tokens.renew(HIVE, text)):
        with pytest.raises(MetastoreError, match="it was cancelled"):
            again()
    (record,) = tokens.all()
    assert record.revoked_by == caller.name


def test_a_token_cancels_itself_and_does_no_more(tokens: DelegationTokenService) -> None:
    text = tokens.issue(ANN, "ann", "ann", PEER)
    by_token = owner_of(tokens, text)
    with pytest.raises(AccessDeniedError, match="is issued only for a client that has authenticated itself by another"):
        tokens.issue(by_token, "ann", "ann", PEER)
    with pytest.raises(AccessDeniedError, match="is renewed only for a client"):
        tokens.renew(by_token, text)
    tokens.cancel(by_token, text)
    with pytest.raises(AuthenticationError, match="cancelled"):
        owner_of(tokens, text)


def test_a_token_is_revoked_by_its_number(stored_tokens: DelegationTokenService, clock: SetClock) -> None:
    tokens = stored_tokens
    text = tokens.issue(ANN, "ann", "hive", PEER)
    assert owner_of(tokens, text).name == "ann"
    assert tokens.revoke(1, "root")
    assert not tokens.revoke(1, "root")
    # What was read before counts for a moment.
    assert tokens.known(identifier_of(text)) is not None
    clock.now += CHECKED_SECONDS
    assert tokens.known(identifier_of(text)) is None
    with pytest.raises(AuthenticationError, match="cancelled"):
        owner_of(tokens, text)
    with pytest.raises(AuthenticationError, match="cancelled"):
        tokens.known(identifier_of(text))
    with pytest.raises(NoSuchObjectError, match="no delegation token 7"):
        tokens.revoke(7)


def changed(change: Callable[[HadoopToken], HadoopToken], text: str) -> str:
    """Return the text of a changed token."""
    return change(HadoopToken.from_text(text)).to_text()


FORGED = {
    "another owner": lambda token: replace(token, identifier=replace(token.identifier, owner="root")),
    "another renewer": lambda token: replace(token, identifier=replace(token.identifier, renewer="bob")),
    "a later end": lambda token: replace(token, identifier=replace(token.identifier, max_at=2**50)),
    "another number": lambda token: replace(token, identifier=replace(token.identifier, sequence=2)),
    "a negative number": lambda token: replace(token, identifier=replace(token.identifier, sequence=-1)),
    "a huge number": lambda token: replace(token, identifier=replace(token.identifier, sequence=2**62)),
    "another key": lambda token: replace(token, identifier=replace(token.identifier, key_id=2)),
}


@pytest.mark.parametrize("forgery", FORGED)
def test_a_forged_token_is_not_valid(tokens: DelegationTokenService, forgery: str) -> None:
    text = changed(FORGED[forgery], tokens.issue(ANN, "ann", "hive", PEER))
    with pytest.raises(AuthenticationError, match="not valid"):
        tokens.password(identifier_of(text))
    for call in (tokens.renew, tokens.cancel):
        with pytest.raises(MetastoreError, match="not valid") as refused:
            call(HIVE, text)
        assert not isinstance(refused.value, AccessDeniedError)


def test_another_password_is_not_valid(tokens: DelegationTokenService) -> None:
    text = tokens.issue(ANN, "ann", "hive", PEER)
    wrong = changed(lambda token: replace(token, password=token.password[:-1] + b"?"), text)
    for call in (tokens.renew, tokens.cancel):
        with pytest.raises(MetastoreError, match="not valid"):
            call(HIVE, wrong)
        with pytest.raises(MetastoreError, match=r"not valid: .*not URL-safe Base64"):
            call(HIVE, "~")
    with pytest.raises(AuthenticationError, match="not valid"):
        tokens.password(b"\0ann")
    assert owner_of(tokens, text).name == "ann"


def test_master_keys_roll_over_and_are_removed_when_no_token_needs_them(
    each_store: SqlRepository, clock: SetClock
) -> None:
    store = each_store
    tokens = DelegationTokenService(store, clock=clock)
    first = tokens.issue(ANN, "ann", "hive", PEER)
    clock.now += DAY - 1
    same = tokens.issue(ANN, "ann", "hive", PEER)
    clock.now += 1
    second = tokens.issue(ANN, "ann", "hive", PEER)
    ids = [HadoopToken.from_text(text).identifier.key_id for text in (first, same, second)]
    assert ids == [1, 1, 2]
    one = store.read(lambda transaction: transaction.delegation_tokens.key(1))
    two = store.read(lambda transaction: transaction.delegation_tokens.key(2))
    assert one is not None
    assert two is not None
    assert one.secret != two.secret
    # A token of the first key is good until it ends.
    assert owner_of(tokens, same).name == "ann"
    clock.now += DAY + ENDED_SECONDS
    assert tokens.expire() == 2
    assert store.read(lambda transaction: transaction.delegation_tokens.key(1)) is None
    assert store.read(lambda transaction: transaction.delegation_tokens.key(2)) is not None
    # The last key that has not rolled over is kept for further tokens.
    assert [record.identifier.key_id for record in tokens.all()] == [2]


def test_an_ended_token_keeps_its_reason_for_a_day(tokens: DelegationTokenService, clock: SetClock) -> None:
    text = tokens.issue(ANN, "ann", "hive", PEER)
    clock.now += DAY
    assert tokens.expire() == 0
    with pytest.raises(AuthenticationError, match="expired"):
        owner_of(tokens, text)
    clock.now += ENDED_SECONDS + 1
    assert tokens.expire() == 1
    with pytest.raises(AuthenticationError, match="not valid"):
        owner_of(tokens, text)


def test_the_reaper_removes_tokens_that_have_ended(
    tokens: DelegationTokenService, store: SqlRepository, clock: SetClock
) -> None:
    tokens.issue(ANN, "ann", "hive", PEER)
    reaper = Reaper(store, LockService(store), every_seconds=60, events_ttl_seconds=1, clock=clock, delegation=tokens)
    reaper.look()
    assert len(tokens.all()) == 1
    clock.now += DAY + ENDED_SECONDS + 1
    reaper.look()
    assert tokens.all() == []


def test_a_token_of_one_server_is_good_on_another(store: SqlRepository, clock: SetClock) -> None:
    one, other = (DelegationTokenService(store, clock=clock) for _ in range(2))
    text = one.issue(ANN, "ann", "hive", PEER)
    assert owner_of(other, text).name == "ann"
    assert other.renew(HIVE, text)
    other.cancel(ANN, text)
    with pytest.raises(AuthenticationError, match="cancelled"):
        owner_of(one, text)


def test_a_token_of_another_user_is_refused(tokens: DelegationTokenService) -> None:
    with pytest.raises(AccessDeniedError, match="ann is not allowed to act for bob"):
        tokens.issue(ANN, "bob", "hive", PEER)
    for name in ("", " ann", "a\nb", "x" * 257, "interbed-optimizer"):
        with pytest.raises(InvalidObjectError):
            tokens.issue(ANN, name, "hive", PEER)
    with pytest.raises(InvalidObjectError, match="renewer"):
        tokens.issue(ANN, "ann", "a\nb", PEER)


def test_a_proxy_user_gets_a_token_of_a_user_that_it_may_act_for(store: SqlRepository, clock: SetClock) -> None:
    asked: list[tuple[str, str, str]] = []

    def acting(principal: Principal, user: str, peer: str) -> Principal:
        asked.append((principal.name, user, peer))
        if user == "eve":
            raise AuthenticationError("The user hive is not allowed to act for eve")
        if user == "lost":
            raise AuthenticationUnavailableError("the directory does not answer")
        return replace(principal, name=user, groups=frozenset({"staff"}))

    rules = DelegationRules(acting=acting, short_name=lambda name: name.partition("@")[0].partition("/")[0])
    tokens = DelegationTokenService(store, rules=rules, clock=clock)
    text = tokens.issue(HIVE, "bob@EXAMPLE.ORG", "yarn/host@EXAMPLE.ORG", PEER)
    identifier = HadoopToken.from_text(text).identifier
    assert (identifier.owner, identifier.real_user, identifier.renewer) == ("bob", "hive", "yarn")
    owner = owner_of(tokens, text)
    assert (owner.name, owner.real_user) == ("bob", "hive")
    assert owner.groups == {"staff"}
    # A user for which a service acts on its connection asks for itself.
    acted_for = replace(ANN, real_user="hive")
    assert owner_of(tokens, tokens.issue(acted_for, "ann", "yarn", PEER)).real_user == "hive"
    with pytest.raises(AccessDeniedError, match="not allowed to act for eve"):
        tokens.issue(HIVE, "eve", "yarn", PEER)
    with pytest.raises(AccessUnavailableError, match="try again"):
        tokens.issue(HIVE, "lost", "yarn", PEER)
    # Its own needs no such right, whatever form the name has.
    assert HadoopToken.from_text(tokens.issue(HIVE, "hive/a@EXAMPLE.ORG", "", PEER)).identifier.real_user == ""
    assert asked == [("hive", user, PEER) for user in ("bob", "eve", "lost")]


def test_a_database_that_does_not_answer_is_no_reason_to_refuse_a_token(
    tokens: DelegationTokenService, store: SqlRepository
) -> None:
    text = tokens.issue(ANN, "ann", "hive", PEER)
    schema.downgrade(store.engine, "base")
    with pytest.raises(AuthenticationUnavailableError):
        owner_of(tokens, text)


def test_the_database_has_no_password(tokens: DelegationTokenService, store: SqlRepository) -> None:
    token = HadoopToken.from_text(tokens.issue(ANN, "ann", "hive", PEER))
    with store.engine.connect() as connection:
        rows = str(connection.exec_driver_sql("SELECT * FROM delegation_tokens").all())
    assert token.password.hex() not in rows
    (record,) = tokens.all()
    assert record.to_json()["principal"] == "ann"
    assert "password" not in record.to_json()


def test_few_verifications_are_kept(tokens: DelegationTokenService, monkeypatch: pytest.MonkeyPatch) -> None:
    assert KEPT_MAX >= 1000
    monkeypatch.setattr("interbed.catalog.server.auth.issued_tokens.KEPT_MAX", 2)
    texts = [tokens.issue(ANN, "ann", "hive", PEER) for _ in range(3)]
    for text in texts:
        owner_of(tokens, text)
    assert [tokens.known(identifier_of(text)) is None for text in texts] == [True, False, False]


class GroupDirectory:
    """Groups of users that a test changes; None where the directory does not answer."""

    def __init__(self) -> None:
        self.groups: dict[str, set[str]] | None = {"ann": {"etl"}, "bob": {"etl"}}

    def known(self, user: str) -> frozenset[str] | None:
        """Return that the directory has to be asked."""
        return None

    def of(self, user: str) -> frozenset[str]:
        """Return the groups of a user. AuthenticationUnavailableError."""
        if self.groups is None:
            raise AuthenticationUnavailableError("The groups of the user cannot be looked up at present")
        return frozenset(self.groups.get(user, ()))


@pytest.fixture
def directory() -> GroupDirectory:
    """Return a directory of users."""
    return GroupDirectory()


@pytest.fixture
def grouped(each_store: SqlRepository, clock: SetClock, directory: GroupDirectory) -> DelegationTokenService:
    """Return the tokens of a server whose users of certificates have the groups of the directory."""
    proxies = Impersonation(parsed_proxy_users("hive.hosts=*; hive.groups=etl"), directory.of)
    owners = OwnerGroups(groups=directory, mechanisms=frozenset({Mechanism.CERTIFICATE}), check_user=proxies.check_user)
    rules = DelegationRules(acting=proxies.acting, directory=owners)
    return DelegationTokenService(each_store, rules=rules, clock=clock)


def test_an_owner_has_the_groups_that_the_directory_has_by_now(
    grouped: DelegationTokenService, directory: GroupDirectory, clock: SetClock
) -> None:
    assert directory.groups is not None
    ann = Principal(name="ann", mechanism=Mechanism.CERTIFICATE, groups=frozenset({"etl"}))
    by_ticket, by_token = grouped.issue(ann, "ann", "", PEER), grouped.issue(ANN, "ann", "", PEER)
    assert owner_of(grouped, by_ticket).groups == {"etl"}
    directory.groups["ann"] = {"sales"}
    # A process uses its last look for a time.
    known = grouped.known(identifier_of(by_ticket))
    assert known is not None
    assert known.groups == {"etl"}
    clock.now += CHECKED_SECONDS
    assert grouped.known(identifier_of(by_ticket)) is None
    assert owner_of(grouped, by_ticket).groups == {"sales"}
    # The groups of an issued token are its own.
    assert owner_of(grouped, by_token).groups == ANN.groups
    assert [each.asks_groups for each in grouped.all()] == [True, False]


def test_a_service_acts_for_a_user_by_its_present_groups(
    grouped: DelegationTokenService, directory: GroupDirectory, clock: SetClock
) -> None:
    assert directory.groups is not None
    text = grouped.issue(HIVE, "bob", "", PEER)
    assert owner_of(grouped, text).real_user == "hive"
    assert owner_of(grouped, text).groups == {"etl"}
    directory.groups["bob"] = {"etl", "sales"}
    clock.now += CHECKED_SECONDS
    assert owner_of(grouped, text).groups == {"etl", "sales"}
    directory.groups["bob"] = {"sales"}
    clock.now += CHECKED_SECONDS
    with pytest.raises(AuthenticationError, match="hive is not allowed to act for bob"):
        owner_of(grouped, text)


def test_an_owner_is_refused_while_the_directory_does_not_answer(
    grouped: DelegationTokenService, directory: GroupDirectory, clock: SetClock
) -> None:
    text = grouped.issue(HIVE, "bob", "", PEER)
    known, directory.groups = directory.groups, None
    for ask in (grouped.verified, grouped.password):
        with pytest.raises(AuthenticationUnavailableError, match="groups of the user"):
            ask(identifier_of(text))
    assert grouped.known(identifier_of(text)) is None
    directory.groups = known
    assert owner_of(grouped, text).groups == {"etl"}


def test_tokens_of_older_servers_and_of_servers_without_a_directory_keep_their_groups(
    grouped: DelegationTokenService, each_store: SqlRepository, directory: GroupDirectory, clock: SetClock
) -> None:
    assert directory.groups is not None
    text = grouped.issue(HIVE, "bob", "", PEER)
    directory.groups["bob"] = set()
    assert owner_of(DelegationTokenService(each_store, clock=clock), text).groups == {"etl"}
    # As a database of the version before has it.
    schema.downgrade(each_store.engine, "0021")
    schema.upgrade(each_store.engine)
    clock.now += CHECKED_SECONDS
    assert owner_of(grouped, text).groups == {"etl"}
    assert [each.asks_groups for each in grouped.all()] == [False]
