"""`interbed metastore policy set-filter | set-mask | drop | list`: row filters and column masks of tables.

They work on the server's database directly (opened.py), as its operator, an administrator. Servers that decide
about access by grants give them to readers.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from interbed.catalog.server.cli.history import shown_time
from interbed.catalog.server.cli.opened import db_option, opened
from interbed.storage.base.terminal import SuggestingGroup, print_columns, print_line

if TYPE_CHECKING:
    from interbed.catalog.server.service.access.grants import Grantee, TablePolicy
    from interbed.catalog.server.service.access.objects import SecuredObject
    from interbed.catalog.server.service.access.policies import PolicyAdministration

_catalog = click.option("--catalog", default="hive", show_default=True, metavar="NAME", help="The table's catalog.")
_table = click.argument("table", metavar="DATABASE.TABLE")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


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
    from interbed.catalog.server.service.access.grants import PolicyKind, TablePolicy

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
    from interbed.catalog.server.service.access.grants import Grantee, GranteeKind, role_named

    kind, _, name = text.strip().partition(" ")
    kinds = [str(each) for each in GranteeKind]
    if kind.lower() not in kinds or not name.strip():
        raise click.UsageError(f"{text!r} is none of '{' NAME, '.join(kinds)} NAME', such as 'role analysts'")
    found = GranteeKind(kind.lower())
    return role_named(name) if found is GranteeKind.ROLE else Grantee(found, name.strip())
