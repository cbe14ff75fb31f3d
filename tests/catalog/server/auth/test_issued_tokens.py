"""Tokens that the server issues: their life, their storage, and the verification by all mechanisms together."""

from collections.abc import Iterator
from typing import Any

import pytest

from interbed.catalog.server.auth.authentication import REFUSED_SECONDS, Authentication
from interbed.catalog.server.auth.issued_tokens import CHECKED_SECONDS, KEPT_MAX, TokenService
from interbed.catalog.server.auth.principals import (
    AuthenticationError,
    AuthenticationUnavailableError,
    Credentials,
    Mechanism,
    Principal,
)
from interbed.catalog.server.database import schema
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.errors import InvalidObjectError, NoSuchObjectError
from tests.support.certificates import certificate_of
from tests.support.databases import open_migrated


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Return a clock that tests set."""
    return Clock()


@pytest.fixture
def store(database_url: str) -> Iterator[SqlRepository]:
    """Yield a migrated database."""
    opened = open_migrated(database_url)
    yield opened
    opened.close()


@pytest.fixture
def tokens(store: SqlRepository, clock: Clock) -> TokenService:
    """Return the service on the database."""
    return TokenService(store, clock=clock)


def test_the_life_of_a_token(tokens: TokenService, clock: Clock) -> None:
    text, record = tokens.create("ann", groups=["etl", "lake", "etl"], seconds=3600, comment="nightly")
    expected = Principal(
        name="ann", mechanism=Mechanism.TOKEN, groups=frozenset({"etl", "lake"}), token_id=record.token_id
    )
    assert tokens.verify(text) == (expected, clock.now + CHECKED_SECONDS)
    assert [each.comment for each in tokens.all()] == ["nightly"]
    clock.now += 3599.5
    assert tokens.verify(text) == (expected, clock.now + 0.5)
    clock.now += 0.5
    with pytest.raises(AuthenticationError, match="expired"):
        tokens.verify(text)


def test_a_revoked_token_is_refused(tokens: TokenService) -> None:
    text, record = tokens.create("ann")
    assert tokens.revoke(record.token_id)
    assert not tokens.revoke(record.token_id)
    with pytest.raises(AuthenticationError, match="revoked"):
        tokens.verify(text)
    with pytest.raises(NoSuchObjectError, match="no token 00"):
        tokens.revoke("00")


def test_the_database_has_no_secret(tokens: TokenService, store: SqlRepository) -> None:
    text, record = tokens.create("ann")
    secret = text.rpartition("_")[2] if text.count("_") == 2 else text.split("_", 2)[2]
    with store.engine.connect() as connection:
        rows = str(connection.exec_driver_sql("SELECT * FROM access_tokens").all())
    assert secret not in rows
    assert secret not in repr(record)
    assert "secret_hash" not in record.to_json()


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-1],
        lambda text: text + "A",
        lambda text: text[:-1] + ("A" if text[-1] != "A" else "B"),
        lambda text: text.replace("ibt_", "ibt_0", 1),
        lambda text: text[:4] + "0" * 16 + text[20:],
        lambda text: text.upper(),
        lambda text: text + "\n",
        lambda text: text[:21],
        lambda text: text[:21] + "' OR 1=1 --",
        lambda text: "ibt_",
    ],
)
@pytest.mark.attack("forged tokens")
def test_a_changed_token_is_refused(tokens: TokenService, change: Any) -> None:
    text, _ = tokens.create("ann")
    with pytest.raises(AuthenticationError, match="not valid"):
        tokens.verify(change(text))


@pytest.mark.parametrize("name", ["", " ", "a b ", "a\nb", "a\x00", "a" * 257, "a\u202eb"], ids=ascii)
@pytest.mark.attack("forged tokens")
def test_names_that_no_principal_may_have_are_refused(tokens: TokenService, name: str) -> None:
    with pytest.raises(InvalidObjectError, match="principal"):
        tokens.create(name)
    with pytest.raises(InvalidObjectError, match="group"):
        tokens.create("ann", groups=[name])


def test_a_database_that_does_not_answer_is_no_reason_to_refuse_a_token(store: SqlRepository) -> None:
    tokens = TokenService(store)
    text, _ = tokens.create("ann")
    schema.downgrade(store.engine, "base")
    with pytest.raises(AuthenticationUnavailableError):
        tokens.verify(text)


class CountedReads:
    """A mechanism that counts its calls. It accepts `good`."""

    def __init__(self, clock: Clock) -> None:
        self.count = 0
        self._clock = clock

    def verify(self, token: str) -> tuple[Principal, float]:
        self.count += 1
        if token != "good":
            raise AuthenticationError("not good")
        return Principal(name="ann", mechanism=Mechanism.JWT), self._clock() + 60


def test_a_verified_token_is_kept_for_its_time(clock: Clock) -> None:
    mechanism = CountedReads(clock)
    authentication = Authentication({Mechanism.JWT: mechanism}, clock=clock)
    good = Credentials(bearer="good")
    assert authentication.known(good) is None
    assert authentication.authenticate(good).name == "ann"
    found = authentication.known(good)
    assert found is not None
    assert found.name == "ann"
    clock.now += 60
    assert authentication.known(good) is None
    assert mechanism.count == 1


def test_a_refused_token_is_kept_for_a_moment(clock: Clock) -> None:
    authentication = Authentication({Mechanism.JWT: CountedReads(clock)}, clock=clock)
    bad = Credentials(bearer="bad")
    with pytest.raises(AuthenticationError):
        authentication.authenticate(bad)
    with pytest.raises(AuthenticationError):
        authentication.known(bad)
    clock.now += REFUSED_SECONDS
    assert authentication.known(bad) is None


def test_kept_tokens_are_bounded(clock: Clock) -> None:
    authentication = Authentication({Mechanism.JWT: CountedReads(clock)}, clock=clock)
    authentication.authenticate(Credentials(bearer="good"))
    for number in range(KEPT_MAX):
        with pytest.raises(AuthenticationError):
            authentication.authenticate(Credentials(bearer=f"bad-{number}"))
    assert authentication.known(Credentials(bearer="good")) is None


@pytest.mark.attack("forged tokens")
def test_certificates_count_where_they_are_a_mechanism(clock: Clock) -> None:
    with_certificates = Authentication({Mechanism.JWT: CountedReads(clock)}, certificates=True, clock=clock)
    without = Authentication({Mechanism.JWT: CountedReads(clock)}, clock=clock)
    ann = Credentials(certificate=certificate_of("ann"))
    assert with_certificates.authenticate(ann) == Principal(name="ann", mechanism=Mechanism.CERTIFICATE)
    for refused in (
        Credentials(),
        Credentials(certificate=certificate_of()),
        Credentials(certificate=certificate_of("ann", "root")),
    ):
        with pytest.raises(AuthenticationError):
            with_certificates.authenticate(refused)
    with pytest.raises(AuthenticationError, match="accepted: jwt"):
        without.authenticate(ann)


@pytest.mark.attack("forged tokens")
def test_a_refused_token_is_not_replaced_by_the_certificate(clock: Clock) -> None:
    authentication = Authentication({Mechanism.JWT: CountedReads(clock)}, certificates=True, clock=clock)
    with pytest.raises(AuthenticationError):
        authentication.authenticate(Credentials(bearer="bad", certificate=certificate_of("ann")))


@pytest.mark.attack("forged tokens")
def test_a_mechanism_that_is_off_takes_no_token(tokens: TokenService, clock: Clock) -> None:
    text, _ = tokens.create("ann")
    with pytest.raises(AuthenticationError, match="accepted: jwt"):
        Authentication({Mechanism.JWT: CountedReads(clock)}, clock=clock).authenticate(Credentials(bearer=text))
    with pytest.raises(AuthenticationError, match="accepted: token"):
        Authentication({Mechanism.TOKEN: tokens}, clock=clock).authenticate(Credentials(bearer="good"))
