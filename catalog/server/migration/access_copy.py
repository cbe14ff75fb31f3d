"""The import of roles, their members and grants: what the source has, and the target lacks, is given there.

A source's grants are made in the name of their grantors; their times are those of the import. Like other objects, those
that the target alone has stay, so that `verify` reports them.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from interbed.catalog.server.migration.access_records import AccessRecords, access_records
from interbed.catalog.server.migration.record import Key, RecordKind, RefusedError
from interbed.catalog.server.migration.selection import ObjectSelection
from interbed.catalog.server.migration.source import Source
from interbed.catalog.server.migration.summary import CopyOutcome, CopySummary
from interbed.catalog.server.migration.target import Target
from interbed.catalog.server.service.access.granting import GrantRequest
from interbed.catalog.server.service.access.grants import ADMIN_ROLE, Grant, RoleMember
from interbed.catalog.server.service.errors import MetastoreError

V = TypeVar("V")

GRANTS_AT_ONCE = 500
"""Grants of one transaction."""


class AccessCopy:
    """The import of the roles and grants of a source, with its results in a summary. `target` is None for a dry run
    into a database that does not exist yet.
    """

    def __init__(
        self, source: Source, target: Target | None, selection: ObjectSelection, summary: CopySummary, *, dry_run: bool
    ) -> None:
        self._source = source
        self._target = target
        self._selection = selection
        self._summary = summary
        self._dry_run = dry_run or target is None

    def run(self) -> None:
        """Copy roles, members and grants, in this order."""
        try:
            wanted = access_records(self._source, self._selection)
        except RefusedError as error:
            self._fail(Key(kind=RecordKind.ROLE, catalog=self._source.name), error)
            return
        present = AccessRecords() if self._target is None else access_records(self._target.source, self._selection)
        for key, reason in wanted.refused:
            self._fail(key, reason)
        self._each(wanted.roles, present.roles, self._put_role)
        self._each(wanted.members, present.members, self._put_member)
        self._grants(wanted.grants, present.grants)
        if any(each.role == ADMIN_ROLE for each in wanted.members.values()):
            self._summary.notes.append(
                f"members of the role {ADMIN_ROLE} may do everything at once, without SET ROLE as in Hive"
            )

    def _each(self, wanted: Mapping[Key, V], present: Mapping[Key, V], put: Callable[[V], None]) -> None:
        for key, value in wanted.items():
            outcome = _outcome(value, present.get(key))
            if outcome is CopyOutcome.COPIED and not self._dry_run:
                try:
                    put(value)
                except MetastoreError as error:
                    self._fail(key, error)
                    continue
            self._summary.count(key.kind, outcome)

    def _grants(self, wanted: Mapping[Key, Grant], present: Mapping[Key, Grant]) -> None:
        outcomes = {key: _outcome(grant, present.get(key)) for key, grant in wanted.items()}
        for outcome in (CopyOutcome.UNCHANGED, CopyOutcome.DIFFERENT):
            self._summary.count(RecordKind.GRANT, outcome, sum(each is outcome for each in outcomes.values()))
        missing = [key for key, outcome in outcomes.items() if outcome is CopyOutcome.COPIED]
        for start in range(0, len(missing), GRANTS_AT_ONCE):
            self._put_grants({key: wanted[key] for key in missing[start : start + GRANTS_AT_ONCE]})

    def _put_grants(self, grants: Mapping[Key, Grant]) -> None:
        """Give privileges in one transaction; if one of them is refused, each in its own."""
        try:
            if not self._dry_run:
                assert self._target is not None
                self._target.access.grant([_request(each) for each in grants.values()], None)
        except MetastoreError as error:
            assert self._target is not None
            # The database itself may be lost: then no other grant can be stored either.
            self._target.check()
            if len(grants) > 1:
                for key, grant in grants.items():
                    self._put_grants({key: grant})
                return
            self._fail(next(iter(grants)), error)
            return
        self._summary.count(RecordKind.GRANT, CopyOutcome.COPIED, len(grants))

    def _put_role(self, name: str) -> None:
        assert self._target is not None
        self._target.access.create_role(name, None)

    def _put_member(self, member: RoleMember) -> None:
        assert self._target is not None
        self._target.access.add_member(
            member.role, member.member, None, admin_option=member.admin_option, grantor=member.grantor
        )

    def _fail(self, key: Key, reason: Exception | str) -> None:
        self._summary.count(key.kind, CopyOutcome.FAILED)
        self._summary.add_failure(f"{key.kind} {key}", str(reason))


def _outcome(wanted: object, present: object | None) -> CopyOutcome:
    """Return the outcome of a record. An option that the source gives is added; one that it does not give is reported,
    because others may depend on it.
    """
    if present is None or (_option(wanted) and not _option(present)):
        return CopyOutcome.COPIED
    return CopyOutcome.UNCHANGED if _option(wanted) == _option(present) else CopyOutcome.DIFFERENT


def _option(record: object) -> bool:
    if isinstance(record, Grant):
        return record.grant_option
    return isinstance(record, RoleMember) and record.admin_option


def _request(grant: Grant) -> GrantRequest:
    return GrantRequest(
        privilege=grant.privilege, on=grant.on, to=grant.to, grant_option=grant.grant_option, grantor=grant.grantor
    )
