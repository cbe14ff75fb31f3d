"""`interbed metastore policy set-filter | set-mask | drop | list`: row filters and column masks of tables; and
`interbed metastore token create | list | revoke`: the tokens that a server has issued.

They work on the server's database directly (history.py), as its operator, an administrator. Servers that decide about
access by grants give policies to readers.

Servers accept tokens where the setting `authentication` has `token`. Delegation tokens, which servers issue to clients
where it has `delegation-token`, are listed and revoked as well: their ids are their sequence numbers.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from interbed.catalog.server.cli.history import db_option, opened, shown_time
from interbed.catalog.server.setting_kinds import parse_seconds
from interbed.storage.base.terminal import SuggestingGroup, print_columns, print_line

if TYPE_CHECKING:
    from interbed.catalog.server.auth.delegation.tokens import DelegationRecord
    from interbed.catalog.server.service.access.objects import Grantee, SecuredObject, TablePolicy
    from interbed.catalog.server.service.access.policies import PolicyAdministration

_catalog = click.option("--catalog", default="hive", show_default=True, metavar="NAME", help="The table's catalog.")
_table = click.argument("table", metavar="DATABASE.TABLE")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

_SEQUENCE = re.compile(r"\d{1,10}", re.ASCII)
"""The ids of delegation tokens; those of issued tokens have 16 digits."""


@click.group(name="policy", cls=SuggestingGroup)
def policy() -> None:
    """Row filters and column masks of tables: which rows and values users, groups and roles see."""


def _binding(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of whom a policy binds."""
    command = click.option(
        "--except",
        "exempt",
        multiple=True,
        metavar="'KIND NAME'",
        help="A user, group or role that it does not bind, such as 'user ann'; repeatable.",
    )(command)
    command = click.option(
        "--to",
        "bound",
        multiple=True,
        default=("role public",),
        metavar="'KIND NAME'",
        help="A user, group or role that it binds, such as 'role analysts'; repeatable. Everyone by default.",
    )(command)
    return _catalog(db_option(command))


@policy.command(name="set-filter", short_help="Show only rows for which a condition is true.")
@_binding
@_table
@click.argument("condition")
@click.option("--name", default="filter", show_default=True, metavar="NAME", help="The name of the policy.")
def set_filter(
    *,
    db: str | None,
    catalog: str,
    table: str,
    condition: str,
    name: str,
    bound: tuple[str, ...],
    exempt: tuple[str, ...],
) -> None:
    """Show only rows of a table for which CONDITION is true, a condition over its columns. All filters that bind a
    reader hold together. A policy of the same name is replaced.
    """
    _set(db, catalog, table, {"name": name, "expression": condition}, bound, exempt)


@policy.command(name="set-mask", short_help="Show an expression in place of a column.")
@_binding
@_table
@click.argument("column")
@click.argument("expression")
@click.option("--name", metavar="NAME", help="The name of the policy; mask-COLUMN by default.")
def set_mask(
    *,
    db: str | None,
    catalog: str,
    table: str,
    column: str,
    expression: str,
    name: str | None,
    bound: tuple[str, ...],
    exempt: tuple[str, ...],
) -> None:
    """Show EXPRESSION in place of COLUMN of a table: NULL, 'a text', another column, or UPPER, LOWER, CONCAT or
    CONCAT_WS of texts and columns. A policy of the same name is replaced.
    """
    fields = {"name": name or f"mask-{column}", "column": column, "expression": expression}
    _set(db, catalog, table, fields, bound, exempt)


@policy.command()
@db_option
@_catalog
@_table
@click.argument("name")
def drop(*, db: str | None, catalog: str, table: str, name: str) -> None:
    """Remove the policy NAME of a table."""
    on = _parsed_table(table, catalog)
    with _administered(db) as policies:
        policies.drop(on, name, None)
    print_line(f"dropped the policy {name} of the {on}")


@policy.command(name="list")
@db_option
@_catalog
@_table
@_json
def list_policies(*, db: str | None, catalog: str, table: str, as_json: bool) -> None:
    """List the policies of a table, by name."""
    on = _parsed_table(table, catalog)
    with _administered(db) as policies:
        found = policies.policies(on, None)
    if as_json:
        click.echo(json.dumps([each.to_json() for each in found], indent=2))
        return
    if not found:
        print_line("No policies.")
        return
    header = ["NAME", "KIND", "COLUMN", "EXPRESSION", "TO", "EXCEPT", "BY", "SET"]
    print_columns([header, *map(_cells, found)])


def _cells(each: "TablePolicy") -> list[str]:
    return [
        each.name,
        str(each.kind),
        each.column or "",
        each.expression,
        ", ".join(map(str, each.bound)),
        ", ".join(map(str, each.exempt)),
        each.created_by or "",
        shown_time(each.created_at),
    ]


def _set(
    db: str | None, catalog: str, table: str, fields: dict[str, Any], bound: tuple[str, ...], exempt: tuple[str, ...]
) -> None:
    from interbed.catalog.server.service.access.objects import PolicyKind, TablePolicy

    made = TablePolicy(
        kind=PolicyKind.MASK if "column" in fields else PolicyKind.FILTER,
        bound=tuple(map(_parsed_grantee, bound)),
        exempt=tuple(map(_parsed_grantee, exempt)),
        **fields,
    )
    on = _parsed_table(table, catalog)
    with _administered(db) as policies:
        policies.set(on, made, None)
    print_line(f"set the {made} of the {on}")


@contextmanager
def _administered(db: str | None) -> "Iterator[PolicyAdministration]":
    # Need SQL, which is slow to import for the help of a command.
    from interbed.catalog.client.hive.connection import current_user
    from interbed.catalog.server.service.access.builtin import BuiltinAuthorizer
    from interbed.catalog.server.service.access.policies import PolicyAdministration

    with opened(db) as (store, _):
        yield PolicyAdministration(store, BuiltinAuthorizer(store), operator=current_user())


def _parsed_table(text: str, catalog: str) -> "SecuredObject":
    from interbed.catalog.server.service.access.objects import table_object
    from interbed.catalog.server.service.names import normalized

    database, _, name = text.partition(".")
    if not database or not name or "." in name:
        raise click.UsageError(f"a table is DATABASE.TABLE, not {text!r}")
    return table_object(normalized(catalog), normalized(database), normalized(name))


def _parsed_grantee(text: str) -> "Grantee":
    from interbed.catalog.server.service.access.objects import Grantee, GranteeKind, role_named

    kind, _, name = text.strip().partition(" ")
    kinds = [str(each) for each in GranteeKind]
    if kind.lower() not in kinds or not name.strip():
        raise click.UsageError(f"{text!r} is none of '{' NAME, '.join(kinds)} NAME', such as 'role analysts'")
    found = GranteeKind(kind.lower())
    return role_named(name) if found is GranteeKind.ROLE else Grantee(found, name.strip())


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
