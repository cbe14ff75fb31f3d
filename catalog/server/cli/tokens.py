"""`interbed metastore token create | list | revoke`: the tokens that a server has issued, in its database.

They work on the database directly (opened.py). Servers accept them where the setting `authentication` has `token`.
Delegation tokens, which servers issue to clients where it has `delegation-token`, are listed and revoked as well: their
ids are their sequence numbers.
"""

import json
import re
import time
from typing import TYPE_CHECKING

import click

from interbed.catalog.server.cli.history import shown_time
from interbed.catalog.server.cli.opened import db_option, opened
from interbed.catalog.server.setting_kinds import parse_seconds
from interbed.storage.base.terminal import SuggestingGroup, print_columns, print_line

if TYPE_CHECKING:
    from interbed.catalog.server.auth.delegation.tokens import DelegationRecord

_SEQUENCE = re.compile(r"\d{1,10}", re.ASCII)
"""The ids of delegation tokens; those of issued tokens have 16 digits."""

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _lifetime(_context: click.Context, _parameter: click.Parameter, value: str | None) -> float | None:
    """Return the seconds of an option with a duration."""
    if value is None or value == "never":
        return None
    try:
        return parse_seconds(value)
    except (ValueError, KeyError, OverflowError) as error:
        raise click.BadParameter(f"{value!r} is no duration such as 90d or 12h, and not `never`") from error


@click.group(name="token", cls=SuggestingGroup)
def token() -> None:
    """Tokens by which users and services authenticate themselves, and delegation tokens."""


@token.command()
@db_option
@click.argument("principal")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group of the principal; may be repeated.")
@click.option(
    "--expires",
    "seconds",
    default="90d",
    show_default=True,
    callback=_lifetime,
    metavar="DURATION",
    help="The lifetime of the token, or `never`.",
)
@click.option("--comment", metavar="TEXT", help="What the token is for.")
@_json
def create(
    *,
    db: str | None,
    principal: str,
    groups: tuple[str, ...],
    seconds: float | None,
    comment: str | None,
    as_json: bool,
) -> None:
    """Issue a token for PRINCIPAL, and print it. It is shown this once: the server keeps only a hash."""
    # Needs SQL, which is slow to import for the help of a command.
    from interbed.catalog.client.hive.connection import current_user
    from interbed.catalog.server.auth.issued_tokens import TokenService

    with opened(db) as (store, _):
        text, record = TokenService(store).create(
            principal, groups=groups, seconds=seconds, comment=comment, created_by=current_user()
        )
    if as_json:
        click.echo(json.dumps({**record.to_json(), "token": text}, indent=2))
    else:
        print_line(text)


@token.command(name="list")
@db_option
@_json
def list_tokens(*, db: str | None, as_json: bool) -> None:
    """List the tokens without their secrets, the oldest first, and delegation tokens after them."""
    from interbed.catalog.server.auth.delegation.tokens import DelegationTokenService
    from interbed.catalog.server.auth.issued_tokens import TokenService

    with opened(db) as (store, _):
        records = TokenService(store).all()
        delegated = DelegationTokenService(store).all()
    if as_json:
        shown = [*(record.to_json() for record in records), *(record.to_json() for record in delegated)]
        click.echo(json.dumps(shown, indent=2))
        return
    if not records and not delegated:
        print_line("No tokens.")
        return
    now = time.time()
    print_columns(
        [
            ["ID", "PRINCIPAL", "GROUPS", "STATE", "CREATED", "BY", "EXPIRES", "COMMENT"],
            *(
                [
                    record.token_id,
                    record.principal,
                    ",".join(record.groups),
                    _state(record.revoked_at, record.expires_at, now),
                    shown_time(record.created_at),
                    record.created_by or "",
                    "never" if record.expires_at is None else shown_time(record.expires_at),
                    record.comment or "",
                ]
                for record in records
            ),
            *(_delegated_columns(record, now) for record in delegated),
        ]
    )


@token.command()
@db_option
@click.argument("token_id", metavar="ID")
def revoke(*, db: str | None, token_id: str) -> None:
    """Revoke a token, or a delegation token, by its id. Servers refuse it within a second."""
    from interbed.catalog.client.hive.connection import current_user
    from interbed.catalog.server.auth.delegation.tokens import DelegationTokenService
    from interbed.catalog.server.auth.issued_tokens import TokenService

    with opened(db) as (store, _):
        if _SEQUENCE.fullmatch(token_id):
            was_valid = DelegationTokenService(store).revoke(int(token_id), current_user())
        else:
            was_valid = TokenService(store).revoke(token_id)
    print_line(f"token {token_id} {'is revoked' if was_valid else 'was revoked before'}")


def _delegated_columns(record: "DelegationRecord", now: float) -> list[str]:
    """Return the columns of a delegation token."""
    identifier = record.identifier
    return [
        record.token_id,
        identifier.owner,
        ",".join(record.groups),
        _state(record.revoked_at, record.renewed_until // 1000, now),
        shown_time(identifier.issued_at // 1000),
        identifier.real_user or identifier.owner,
        shown_time(record.renewed_until // 1000),
        f"delegation token, renewer {identifier.renewer or 'none'}",
    ]


def _state(revoked_at: int | None, expires_at: int | None, now: float) -> str:
    if revoked_at is not None:
        return "revoked"
    return "expired" if expires_at is not None and now >= expires_at else "valid"
