"""Delegation tokens of the server: issue, renew, cancel, verify; with their stored values, master keys and rules.

A token is issued to a client that has authenticated itself by another mechanism, for itself or for a user that it may
act for. Only its renewer may prolong it, up to the maximum lifetime; its owner and its renewer may cancel it. The
password is not stored: it follows from the identifier and a master key, which is replaced at intervals. All are in the
metastore's database, so that a token of one server is accepted by all others of the database. The database is read at
each verification, and a cancelled token is refused by all processes within CHECKED_SECONDS. Times are milliseconds
since the epoch, as in the identifiers of tokens.

Hadoop's services map the names of Kerberos principals to those of users, and permit some users to act for others. Both
belong to other mechanisms: here is what holds where no such mechanism is set up.
"""

import hmac
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from interbed.catalog.server.auth.delegation.hadoop_token import (
    SEQUENCE_MAX,
    HadoopToken,
    TokenFormatError,
    TokenIdentifier,
)
from interbed.catalog.server.auth.impersonation import UserGroups
from interbed.catalog.server.auth.issued_tokens import KeptVerifications, StoredTokens, TokenDatabase, found_token
from interbed.catalog.server.auth.principals import (
    AuthenticationError,
    AuthenticationUnavailableError,
    Mechanism,
    Principal,
    checked_name,
    checked_principal,
)
from interbed.catalog.server.service.errors import (
    AccessDeniedError,
    AccessUnavailableError,
    InvalidObjectError,
    MetastoreError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterKey:
    """A key that makes the passwords of tokens. Tokens are issued by it until `rolls_at`."""

    key_id: int
    secret: bytes = field(repr=False)
    created_at: int
    rolls_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationRecord:
    """An issued token. `groups` are those that its owner had when it was issued. With `asks_groups` they were those of
    the directory of users, which is asked again. It is accepted until `renewed_until`.
    """

    identifier: TokenIdentifier
    renewed_until: int
    groups: Sequence[str] = ()
    asks_groups: bool = False
    revoked_at: int | None = None
    revoked_by: str | None = None

    @property
    def token_id(self) -> str:
        """The name of the token in lists and logs: its sequence number."""
        return str(self.identifier.sequence)

    def problem(self, now: int) -> str | None:
        """Return why the token is not accepted at a time, None if it is."""
        if self.revoked_at is not None:
            return "it was cancelled"
        if now >= self.identifier.max_at:
            return "its maximum lifetime is over"
        if now >= self.renewed_until:
            return "it has expired: it was not renewed in time"
        return None

    def to_json(self) -> dict[str, object]:
        """Return the record for people and programs, with times in seconds, and names as those of issued tokens."""
        return {
            "id": self.token_id,
            "kind": "delegation-token",
            "principal": self.identifier.owner,
            "groups": list(self.groups),
            "created_at": self.identifier.issued_at // 1000,
            "created_by": self.identifier.real_user or self.identifier.owner,
            "expires_at": self.renewed_until // 1000,
            "max_at": self.identifier.max_at // 1000,
            "renewer": self.identifier.renewer or None,
            "key_id": self.identifier.key_id,
            "revoked_at": None if self.revoked_at is None else self.revoked_at // 1000,
            "revoked_by": self.revoked_by,
        }


class DelegationTokens(StoredTokens[int, DelegationRecord], Protocol):
    """Issued delegation tokens by their sequence numbers, and their master keys, in a transaction."""

    def next_sequence(self) -> int:
        """Return a sequence number that no token has had."""
        ...

    def next_key_id(self) -> int:
        """Return an id that no master key has had."""
        ...

    def key(self, key_id: int) -> MasterKey | None: ...
    def newest_key(self) -> MasterKey | None: ...
    def add_key(self, key: MasterKey) -> None: ...
    def renew(self, sequence: int, until: int) -> bool:
        """Store a later end of a token that is not revoked; return whether there is one."""
        ...

    def revoke(self, key: int, at: int, by: str | None = None, /) -> bool:
        """Record that a token was revoked, and the user that did so; return whether it was not revoked before."""
        ...

    def expire(self, before: int) -> int:
        """Remove the tokens that ended before a time, and the keys that no token needs and that rolled over before it.
        Return the number of tokens.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLifetimes:
    """Seconds: how long a token may be renewed, how long it is accepted without, how long a master key makes new ones.
    The defaults are Hive's.
    """

    max_seconds: float = 7 * 86400.0
    renew_seconds: float = 86400.0
    key_seconds: float = 86400.0


ActingFor = Callable[[Principal, str, str], Principal]
"""Returns the principal of a user for which an authenticated one acts from the address `host:port`; may do I/O.
AuthenticationError if it may not.
"""

ShortName = Callable[[str], str]
"""Returns the user of a name that may be a Kerberos principal. AuthenticationError for one that no rule maps."""


def never_acting(principal: Principal, user: str, peer: str) -> Principal:
    """Raise AuthenticationError: no user may act for another one."""
    raise AuthenticationError(
        f"The user {principal.name} is not allowed to act for {user}: this server has no proxy users; ask for a "
        f"delegation token of {principal.name}"
    )


def same_name(name: str) -> str:
    """Return the name of a user as it is: the rule of servers without Kerberos."""
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerGroups:
    """The directory of the groups of users, and the mechanisms whose users have their groups by it. `check_user` raises
    AuthenticationError if a service may not act any more for a user in these groups.
    """

    groups: UserGroups
    mechanisms: frozenset[Mechanism]
    check_user: Callable[[str, str, frozenset[str]], None]

    def has_groups_of(self, caller: Principal) -> bool:
        """Return whether the groups of a caller are those of the directory; so are those of users that services act
        for.
        """
        return caller.real_user is not None or caller.mechanism in self.mechanisms

    def present(self, record: DelegationRecord) -> frozenset[str]:
        """Return the groups that the owner of a token has by now; may do I/O. AuthenticationError."""
        found, service = self.groups.of(record.identifier.owner), record.identifier.real_user
        if service and found != frozenset(record.groups):
            self.check_user(service, record.identifier.owner, found)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationRules:
    """The rules of a server. `directory` is None for a server that looks up no groups."""

    lifetimes: TokenLifetimes = TokenLifetimes()
    short_name: ShortName = same_name
    acting: ActingFor = never_acting
    directory: "OwnerGroups | None" = None


logger = logging.getLogger(__name__)

CHECKED_SECONDS = 0.5
"""Time for which a process uses its last look at a token in the database."""

ENDED_SECONDS = 86400.0
"""Time for which a token that has ended is stored: its client gets the reason, and lists show it."""

SECRET_BYTES = 32
"""The length of the secret of a master key."""

_REFUSED = "The delegation token is not valid"


class DelegationTransaction(Protocol):
    """One unit of work on a database with delegation tokens."""

    @property
    def delegation_tokens(self) -> DelegationTokens: ...


class DelegationTokenService:
    """Issues, renews, cancels and verifies delegation tokens. Safe for many threads."""

    def __init__(
        self,
        store: TokenDatabase[DelegationTransaction],
        *,
        rules: DelegationRules | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._rules = rules if rules is not None else DelegationRules()
        self._clock = clock
        self._kept: KeptVerifications[bytes] = KeptVerifications(clock)

    def issue(self, caller: Principal, owner: str, renewer: str, peer: str) -> str:
        """Return a new token of an owner for a caller at the address `peer`. AccessDeniedError, InvalidObjectError."""
        _refuse_delegated(caller, "is issued")
        owner, groups, asks_groups = self._owner(caller, owner, peer)
        renewer = self._short(renewer, "The renewer") if renewer else ""
        now = self._now()
        lifetimes = self._rules.lifetimes
        max_at = now + int(lifetimes.max_seconds * 1000)

        def work(transaction: DelegationTransaction) -> HadoopToken:
            tokens = transaction.delegation_tokens
            key = self._current_key(tokens, now)
            identifier = TokenIdentifier(
                owner=owner,
                renewer=renewer,
                real_user=(caller.real_user or "") if owner == caller.name else caller.name,
                issued_at=now,
                max_at=max_at,
                sequence=_in_range(tokens.next_sequence(), "tokens"),
                key_id=key.key_id,
            )
            until = min(max_at, now + int(lifetimes.renew_seconds * 1000))
            tokens.add(
                DelegationRecord(
                    identifier=identifier, renewed_until=until, groups=sorted(groups), asks_groups=asks_groups
                )
            )
            return HadoopToken(identifier=identifier, password=identifier.password(key.secret))

        token = self._store.write(work)
        logger.info(
            "issued the delegation token %d of %s to %s, renewer %s",
            token.identifier.sequence,
            owner,
            caller.name,
            renewer or "none",
        )
        return token.to_text()

    def renew(self, caller: Principal, text: str) -> int:
        """Prolong a token, and return its new end in milliseconds since the epoch. AccessDeniedError for others than
        its renewer, MetastoreError for a token that is not valid.
        """
        _refuse_delegated(caller, "is renewed")
        now = self._now()

        def work(transaction: DelegationTransaction) -> tuple[DelegationRecord, int]:
            record = self._presented(transaction, text, now)
            if not record.identifier.renewer:
                raise AccessDeniedError(f"the delegation token {record.token_id} has no renewer: ask for a new one")
            if caller.name != record.identifier.renewer:
                raise AccessDeniedError(
                    f"{caller.name} may not renew the delegation token {record.token_id}: its renewer is "
                    f"{record.identifier.renewer}"
                )
            until = min(record.identifier.max_at, now + int(self._rules.lifetimes.renew_seconds * 1000))
            until = max(until, record.renewed_until)
            transaction.delegation_tokens.renew(record.identifier.sequence, until)
            return record, until

        record, until = self._store.write(work)
        logger.info("renewed the delegation token %s of %s", record.token_id, record.identifier.owner)
        return until

    def cancel(self, caller: Principal, text: str) -> None:
        """Cancel a token. AccessDeniedError for others than its owner and its renewer, MetastoreError for a token that
        is not valid.
        """
        now = self._now()

        def work(transaction: DelegationTransaction) -> DelegationRecord:
            record = self._presented(transaction, text, now)
            if caller.name not in (record.identifier.owner, record.identifier.renewer):
                raise AccessDeniedError(
                    f"{caller.name} may not cancel the delegation token {record.token_id}: its owner is "
                    f"{record.identifier.owner}, its renewer {record.identifier.renewer or 'nobody'}"
                )
            transaction.delegation_tokens.revoke(record.identifier.sequence, now, caller.name)
            return record

        record = self._store.write(work)
        self._kept.forget(record.identifier.to_bytes())
        logger.info("cancelled the delegation token %s of %s", record.token_id, record.identifier.owner)

    def revoke(self, sequence: int, by: str | None = None) -> bool:
        """Cancel a token by its sequence number, and return whether it was not cancelled before. NoSuchObjectError."""
        now = self._now()

        def work(transaction: DelegationTransaction) -> bool:
            found_token(transaction.delegation_tokens, sequence, "delegation token")
            return transaction.delegation_tokens.revoke(sequence, now, by)

        return self._store.write(work)

    def all(self) -> Sequence[DelegationRecord]:
        """Return all tokens that are stored, the oldest first."""
        return self._store.read(lambda transaction: transaction.delegation_tokens.all())

    def expire(self) -> int:
        """Remove the tokens that ended ENDED_SECONDS ago, and master keys that are no longer needed; return the number
        of tokens.
        """
        before = self._now() - int(ENDED_SECONDS * 1000)
        return self._store.write(lambda transaction: transaction.delegation_tokens.expire(before))

    # Authentication by a token

    def password(self, identifier: bytes) -> bytes:
        """Return the password of a token by the bytes of its identifier, also of one that has ended: the client learns
        that when it has proven the password. AuthenticationError for a token that is not stored.
        """
        return self._look_up(identifier)[1]

    def known(self, identifier: bytes) -> Principal | None:
        """Return the owner of a token whose password the client has proven, None if that needs the database.
        AuthenticationError for a token that has ended.
        """
        found = self._kept.find(identifier)
        return None if found is None else found[0]

    def verified(self, identifier: bytes) -> Principal:
        """Return the owner of a token whose password the client has proven, by the database. AuthenticationError."""
        return _judged(self._look_up(identifier)[0])

    def _look_up(self, identifier: bytes) -> tuple[Principal | AuthenticationError, bytes]:
        """Return the owner of a token, or why it is not accepted, and its password. AuthenticationError for a token
        that is not stored.
        """
        try:
            parsed = TokenIdentifier.from_bytes(identifier)
        except TokenFormatError as error:
            raise AuthenticationError(_REFUSED) from error
        # Before the look at the database: a revocation right after it counts from its own time.
        now = self._clock()
        try:
            record, key = self._store.read(lambda transaction: _found(transaction, parsed))
        except MetastoreError as error:
            raise AuthenticationUnavailableError("The server cannot look up delegation tokens at present") from error
        if record is None or key is None:
            raise AuthenticationError(_REFUSED)
        problem = record.problem(int(now * 1000))
        found: Principal | AuthenticationError
        if problem is None:
            found = Principal(
                name=record.identifier.owner,
                mechanism=Mechanism.DELEGATION_TOKEN,
                groups=self._present_groups(record),
                token_id=record.token_id,
                real_user=record.identifier.real_user or None,
            )
            self._kept.keep(identifier, found, min(now + CHECKED_SECONDS, record.renewed_until / 1000))
        else:
            found = AuthenticationError(f"The delegation token {record.token_id} is not accepted: {problem}")
            self._kept.keep(identifier, found, now + CHECKED_SECONDS)
        return found, parsed.password(key.secret)

    # Rules

    def _present_groups(self, record: DelegationRecord) -> frozenset[str]:
        """Return the groups of the owner of a token; may do I/O. AuthenticationError."""
        directory = self._rules.directory
        return directory.present(record) if record.asks_groups and directory is not None else frozenset(record.groups)

    def _owner(self, caller: Principal, given: str, peer: str) -> tuple[str, frozenset[str], bool]:
        """Return the name and the groups of the owner of a new token, and whether they are those of the directory."""
        directory = self._rules.directory
        if not given:
            raise InvalidObjectError("a delegation token needs an owner")
        owner = self._short(given, "The owner")
        if owner == caller.name:
            return owner, caller.groups, directory is not None and directory.has_groups_of(caller)
        try:
            return owner, self._rules.acting(caller, owner, peer).groups, directory is not None
        except AuthenticationUnavailableError as error:
            raise AccessUnavailableError(str(error)) from error
        except AuthenticationError as error:
            raise AccessDeniedError(str(error)) from error

    def _short(self, name: str, what: str) -> str:
        try:
            return checked_principal(self._rules.short_name(checked_name(name, what)), what)
        except AuthenticationError as error:
            raise InvalidObjectError(str(error)) from error

    def _current_key(self, tokens: DelegationTokens, now: int) -> MasterKey:
        """Return the master key for new tokens, a new one if the last has rolled over."""
        newest = tokens.newest_key()
        if newest is not None and now < newest.rolls_at:
            return newest
        key = MasterKey(
            key_id=_in_range(tokens.next_key_id(), "master keys"),
            secret=secrets.token_bytes(SECRET_BYTES),
            created_at=now,
            rolls_at=now + int(self._rules.lifetimes.key_seconds * 1000),
        )
        tokens.add_key(key)
        logger.info("made the master key %d of delegation tokens", key.key_id)
        return key

    def _presented(self, transaction: DelegationTransaction, text: str, now: int) -> DelegationRecord:
        """Return the record of a token that a caller has. MetastoreError for one that is not valid."""
        try:
            token = HadoopToken.from_text(text)
        except TokenFormatError as error:
            raise MetastoreError(f"{_REFUSED}: {error}") from error
        record, key = _found(transaction, token.identifier)
        if record is None or key is None:
            raise MetastoreError(_REFUSED)
        if not hmac.compare_digest(token.password, token.identifier.password(key.secret)):
            raise MetastoreError(_REFUSED)
        problem = record.problem(now)
        if problem is not None:
            raise MetastoreError(f"The delegation token {record.token_id} is not accepted: {problem}")
        return record

    def _now(self) -> int:
        return int(self._clock() * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOwner:
    """Identity of a client that has proven the password of a token: the owner, for as long as the token is valid."""

    tokens: DelegationTokenService
    identifier: bytes

    def known(self) -> Principal | None:
        """Return the owner if that needs no I/O, None otherwise. AuthenticationError."""
        return self.tokens.known(self.identifier)

    def verified(self) -> Principal:
        """Return the owner; may do I/O. AuthenticationError."""
        return self.tokens.verified(self.identifier)


def _judged(found: Principal | AuthenticationError) -> Principal:
    """Return the owner of a token. AuthenticationError in its place."""
    if isinstance(found, AuthenticationError):
        raise found
    return found


def _found(
    transaction: DelegationTransaction, identifier: TokenIdentifier
) -> tuple[DelegationRecord | None, MasterKey | None]:
    """Return the record of exactly this identifier, and its master key; None for what is not stored."""
    if not 0 < identifier.sequence <= SEQUENCE_MAX:
        return None, None
    record = transaction.delegation_tokens.find(identifier.sequence)
    if record is None or record.identifier != identifier:
        return None, None
    return record, transaction.delegation_tokens.key(identifier.key_id)


def _refuse_delegated(caller: Principal, verb: str) -> None:
    """Raise AccessDeniedError for a client that has authenticated itself by a delegation token."""
    if caller.mechanism is Mechanism.DELEGATION_TOKEN:
        raise AccessDeniedError(
            f"a delegation token {verb} only for a client that has authenticated itself by another mechanism, and "
            f"{caller.name} did so by the delegation token {caller.token_id}"
        )


def _in_range(number: int, what: str) -> int:
    if number > SEQUENCE_MAX:
        raise MetastoreError(f"the numbers of delegation {what} are used up: Hadoop's classes hold {SEQUENCE_MAX}")
    return number
