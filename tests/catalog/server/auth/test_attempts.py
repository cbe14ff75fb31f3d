"""Failed authentications: what waits, for how long, and which clients do not."""

import ast
import hmac
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import interbed
from interbed.catalog.server.auth import issued_tokens
from interbed.catalog.server.auth.attempts import (
    ENTRIES_MAX,
    FORGOTTEN_SECONDS,
    PROVEN_SECONDS,
    AttemptLimits,
    AttemptMemory,
    FailedAttempts,
    OwnMemory,
    SharedMemory,
    TooManyAttemptsError,
    address_of,
)
from interbed.catalog.server.auth.authentication import PROVEN_MAX, WAITING_MAX, Authentication, VerificationQueue
from interbed.catalog.server.auth.issued_tokens import TokenService
from interbed.catalog.server.auth.principals import (
    AuthenticationError,
    AuthenticationUnavailableError,
    Credentials,
    Mechanism,
    Principal,
)
from tests.support.databases import open_migrated
from tests.support.source_trees import source_tree
from tests.support.waits import at_most

pytestmark = pytest.mark.attack("guessing")

LIMITS = AttemptLimits(user_failures_max=3, address_failures_max=20, wait_seconds_max=60.0)
HERE, THERE = "192.0.2.1", "198.51.100.7"
SECRET = "right"


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class OnePassword:
    """A directory in which each user has the password `right`. It counts the passwords that it compares."""

    def __init__(self, clock: Clock) -> None:
        self.compared = 0
        self._clock = clock

    def verify(self, user: str, password: str) -> tuple[Principal, float]:
        """Return the principal, whose answer is not kept."""
        self.compared += 1
        if password != SECRET:
            raise AuthenticationError("wrong")
        return Principal(name=user.lower(), mechanism=Mechanism.LDAP), self._clock()


class GuardedAuthentication:
    """An authentication by passwords and issued tokens, with a clock."""

    def __init__(self, limits: AttemptLimits = LIMITS, memory: AttemptMemory | None = None) -> None:
        self.clock = Clock()
        self.directory = OnePassword(self.clock)
        self.attempts = FailedAttempts(limits, memory=memory, clock=self.clock)
        self.authentication = Authentication(
            {Mechanism.TOKEN: _NoToken()}, passwords=self.directory, attempts=self.attempts, clock=self.clock
        )
        self._number = 0

    def result(self, user: str = "ann", password: str | None = None, address: str | None = HERE) -> str:
        """Return what becomes of an attempt, a wrong one without a password: in, wrong, or wait and the seconds."""
        self._number += 1
        given = f"wrong {self._number}" if password is None else password
        try:
            self.authentication.authenticate(Credentials(user=user, password=given, address=address))
        except TooManyAttemptsError as error:
            return f"wait {error.retry_seconds}"
        except AuthenticationError:
            return "wrong"
        return "in"

    def results(self, count: int, user: str = "ann", address: str | None = HERE) -> list[str]:
        """Return what becomes of wrong attempts."""
        return [self.result(user, address=address) for _ in range(count)]


class _NoToken:
    def verify(self, token: str) -> tuple[Principal, float]:
        raise AuthenticationError("no token")


@pytest.fixture(params=[OwnMemory, SharedMemory])
def memory(request: pytest.FixtureRequest) -> AttemptMemory:
    """Return the memory of one process, or one that several share."""
    made: AttemptMemory = request.param()
    return made


@pytest.fixture
def guarded(memory: AttemptMemory) -> GuardedAuthentication:
    """Return an authentication with low limits."""
    return GuardedAuthentication(memory=memory)


def test_waits_begin_after_some_failures_and_double_up_to_a_limit(guarded: GuardedAuthentication) -> None:
    assert guarded.results(5) == ["wrong", "wrong", "wrong", "wait 1", "wait 1"]
    waits = []
    for _ in range(9):
        shown = guarded.result()
        waits.append(int(shown.removeprefix("wait ")))
        guarded.clock.now += waits[-1]
        assert guarded.result() == "wrong"
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert guarded.directory.compared == 12


def test_a_refused_attempt_does_not_reach_the_directory_even_with_the_right_password(
    guarded: GuardedAuthentication,
) -> None:
    guarded.results(3)
    assert guarded.result(password=SECRET) == "wait 1"
    assert guarded.directory.compared == 3
    guarded.clock.now += 1
    assert guarded.result(password=SECRET) == "in"
    # The failures of the user at this address are forgotten.
    assert guarded.results(3) == ["wrong"] * 3


def test_attempts_at_once_are_no_way_round_a_wait(guarded: GuardedAuthentication) -> None:
    guarded.results(3)
    guarded.clock.now += 1
    key = b"secret"
    guarded.attempts.begin(HERE, "ann", key)
    # The first one is not decided yet.
    with pytest.raises(TooManyAttemptsError, match="of the user 'ann' from this address: wait 1 s"):
        guarded.attempts.begin(HERE, "ann", key)


@pytest.mark.parametrize("spelling", ["ANN", "aNN", "Ann"])
def test_other_spellings_of_a_user_have_no_attempts_of_their_own(guarded: GuardedAuthentication, spelling: str) -> None:
    guarded.results(3)
    assert guarded.result(spelling) == "wait 1"


def test_a_user_is_not_locked_out_by_the_guesses_of_another_address(guarded: GuardedAuthentication) -> None:
    assert guarded.result(password=SECRET, address=THERE) == "in"
    for _ in range(40):
        guarded.result()
        guarded.clock.now += 60
    # The password is the one of before, and another one is verified as well: the user was here.
    assert guarded.result(password=SECRET, address=THERE) == "in"
    assert guarded.result(address=THERE) == "wrong"


def test_guesses_of_one_user_from_many_addresses_wait(guarded: GuardedAuthentication) -> None:
    found = [guarded.result(address=f"198.51.100.{number}") for number in range(100)]
    assert found[:20] == ["wrong"] * 20
    assert set(found[20:]) == {"wait 1"}
    assert guarded.result("bob", SECRET, "198.51.100.1") == "in"


def test_one_password_for_many_users_of_one_address_waits(guarded: GuardedAuthentication) -> None:
    found = [guarded.result(f"user{number}", "Winter2026") for number in range(100)]
    assert found[:20] == ["wrong"] * 20
    assert set(found[20:]) == {"wait 1"}


def test_a_good_client_behind_an_address_with_guesses_is_served(guarded: GuardedAuthentication) -> None:
    assert guarded.result("bob", SECRET) == "in"
    for number in range(300):
        guarded.result(f"user{number}")
    assert guarded.result("bob", SECRET) == "in"
    # A new user of the address waits, and comes in.
    assert guarded.result("zoe", SECRET).startswith("wait")
    guarded.clock.now += 60
    assert guarded.result("zoe", SECRET) == "in"


def test_a_proven_password_is_exempt_for_a_day(guarded: GuardedAuthentication) -> None:
    assert guarded.result(password=SECRET) == "in"
    for _ in range(3):
        assert guarded.result() == "wrong"
    assert guarded.result(password=SECRET) == "in"
    guarded.clock.now += PROVEN_SECONDS
    guarded.results(3)
    assert guarded.result(password=SECRET) == "wait 1"


def test_failures_are_forgotten_after_a_while(guarded: GuardedAuthentication) -> None:
    guarded.results(3)
    guarded.clock.now += FORGOTTEN_SECONDS
    assert guarded.results(4) == ["wrong", "wrong", "wrong", "wait 1"]


def test_limits_of_zero_are_none() -> None:
    guarded = GuardedAuthentication(AttemptLimits(user_failures_max=0, address_failures_max=0))
    assert guarded.results(500) == ["wrong"] * 500
    assert guarded.attempts.size == 0


def test_tables_are_bounded_and_names_are_cut(memory: AttemptMemory) -> None:
    guarded = GuardedAuthentication(AttemptLimits(user_failures_max=3, address_failures_max=1_000_000), memory)
    for number in range(ENTRIES_MAX + 500):
        guarded.result(f"{number}" + "x" * 5000, address=f"2001:db8:{number % 65536:x}::1")
    assert guarded.attempts.size <= 3 * ENTRIES_MAX
    for number in range(ENTRIES_MAX + 500):
        guarded.result(f"u{number}", SECRET)
    assert guarded.attempts.size <= 4 * ENTRIES_MAX


def test_a_directory_that_does_not_answer_is_no_failure() -> None:
    clock = Clock()

    class SilentDirectory:
        def verify(self, user: str, password: str) -> tuple[Principal, float]:
            raise AuthenticationUnavailableError("it does not answer")

    authentication = Authentication(
        {}, passwords=SilentDirectory(), attempts=FailedAttempts(LIMITS, clock=clock), clock=clock
    )
    for number in range(50):
        with pytest.raises(AuthenticationUnavailableError, match="does not answer"):
            authentication.authenticate(Credentials(user="ann", password=str(number), address=HERE))


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ("192.0.2.1:5000", "192.0.2.1"),
        ("[2001:db8::1:2:3:4]:5000", "2001:db8::/64"),
        ("2001:db8::9:5000", "2001:db8::/64"),
        ("fe80::1%eth0:5000", "fe80::/64"),
        ("::ffff:192.0.2.1:5000", "192.0.2.1"),
        ("client:5000", "client"),
    ],
)
def test_addresses_count_by_what_one_client_cannot_choose(peer: str, expected: str) -> None:
    assert address_of(peer) == expected


# -- tokens ------------------------------------------------------------------------------------------------------------


class SlowTokens:
    """A mechanism of tokens that a test holds back. It accepts `ibt_good`."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.verified: list[str] = []

    def verify(self, token: str) -> tuple[Principal, float]:
        """Wait for the test, and return the principal of the good token."""
        assert self.released.wait(at_most(30))
        self.verified.append(token)
        if token != "ibt_good":
            raise AuthenticationError("wrong")
        return Principal(name="ann", mechanism=Mechanism.TOKEN), 0.0


class SlowServer:
    """Queue of verifications of tokens that a test holds back."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.tokens = SlowTokens()
        self.authentication = Authentication(
            {Mechanism.TOKEN: self.tokens}, attempts=FailedAttempts(LIMITS, clock=self.clock), clock=self.clock
        )
        self.verifications = VerificationQueue(self.authentication, "test")

    def fail(self, count: int, address: str = HERE) -> None:
        """Have an address fail."""
        for number in range(count):
            with pytest.raises(AuthenticationError):
                self.authentication.authenticate(Credentials(bearer=f"ibt_{number}", address=address))

    def submit(self, credentials: Credentials) -> "Future[Principal]":
        """Verify credentials on a thread of the queue."""
        return self.verifications.submit(partial(self.authentication.authenticate, credentials), credentials)

    def close(self) -> None:
        """End the threads of the queue."""
        self.tokens.released.set()
        self.verifications.close()


@pytest.fixture
def slow() -> Iterator[SlowServer]:
    """Return verifications that are held back."""
    server = SlowServer()
    yield server
    server.close()


def bearer(token: str, address: str = HERE) -> Credentials:
    """Return the credentials of a request."""
    return Credentials(bearer=token, address=address)


def test_tokens_that_are_wrong_do_not_lock_an_address_out(slow: SlowServer) -> None:
    slow.tokens.released.set()
    slow.fail(500)
    assert slow.submit(bearer("ibt_good")).result(at_most(30)).name == "ann"


def test_an_address_with_failures_has_one_verification_at_a_time(slow: SlowServer) -> None:
    slow.tokens.released.set()
    slow.fail(LIMITS.address_failures_max)
    slow.tokens.released.clear()
    first = slow.submit(bearer("ibt_x"))
    for _ in range(10):
        with pytest.raises(TooManyAttemptsError, match="from this address: wait 1 s"):
            slow.submit(bearer("ibt_y"))
    other = slow.submit(bearer("ibt_good", THERE))
    slow.tokens.released.set()
    assert other.result(at_most(30)).name == "ann"
    with pytest.raises(AuthenticationError):
        first.result(at_most(30))
    assert slow.submit(bearer("ibt_good")).result(at_most(30)).name == "ann"


def test_a_flood_does_not_take_the_places_of_known_clients(slow: SlowServer) -> None:
    slow.tokens.released.set()
    slow.authentication.authenticate(bearer("ibt_good"))
    slow.fail(LIMITS.address_failures_max)
    slow.tokens.released.clear()
    for number in range(WAITING_MAX):
        slow.submit(bearer(f"ibt_{number}", f"198.51.100.{number}"))
    with pytest.raises(AuthenticationUnavailableError) as refused:
        slow.submit(bearer("ibt_z", THERE))
    assert str(refused.value) == "Too many clients wait to be authenticated; try again"
    known = [slow.submit(bearer("ibt_good")) for _ in range(PROVEN_MAX)]
    with pytest.raises(AuthenticationUnavailableError, match="Too many clients wait"):
        slow.submit(bearer("ibt_good"))
    slow.tokens.released.set()
    assert {each.result(at_most(30)).name for each in known} == {"ann"}


def test_the_advice_to_try_again_is_given_in_one_place() -> None:
    root = Path(interbed.__file__).parent / "catalog" / "server"
    given = [
        f"{path.relative_to(root)}:{call.lineno}"
        for path in sorted(root.rglob("*.py"))
        for call in ast.walk(source_tree(path))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func).rpartition(".")[2] == AuthenticationUnavailableError.__name__
        and "again" in ast.unparse(call)
    ]
    assert given == []
    assert str(AuthenticationUnavailableError("It is closed")) == "It is closed; try again"
    assert str(TooManyAttemptsError("here", 1.5)) == "Too many failed authentications here: wait 2 s; try again"


# -- what an attacker could measure ------------------------------------------------------------------------------------


def test_unknown_tokens_and_wrong_secrets_take_the_same_steps(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_migrated(database_url)
    tokens = TokenService(store)
    token, _ = tokens.create("ann")
    revoked, record = tokens.create("bob")
    tokens.revoke(record.token_id)
    steps: list[str] = []

    def recorded(step: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            steps.append(step)
            return plain(*arguments)

        return call

    monkeypatch.setattr(issued_tokens, "_hash", recorded("hash", issued_tokens._hash))
    monkeypatch.setattr(hmac, "compare_digest", recorded("compare", hmac.compare_digest))
    monkeypatch.setattr(store, "read", recorded("read", store.read))
    taken = []
    texts = set()
    for attempt in (
        token[:-1] + ("A" if token[-1] != "A" else "B"),
        token[:4] + "0" * 16 + token[20:],
        revoked[:-1] + ("A" if revoked[-1] != "A" else "B"),
    ):
        steps.clear()
        with pytest.raises(AuthenticationError) as refused:
            tokens.verify(attempt)
        taken.append(list(steps))
        texts.add(str(refused.value))
    assert taken == [["read", "hash", "compare"]] * 3
    assert len(texts) == 1
    store.close()
