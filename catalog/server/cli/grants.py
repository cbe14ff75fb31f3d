"""`interbed metastore grant | revoke | grants | why-denied`: the privileges on a server's objects, in its database.

`interbed metastore roles create | drop | list | members | add | remove`: the roles of a server.

They work on the database directly (history.py), as its operator, an administrator. Servers with
`access_authorizer = "builtin"` decide by them.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from interbed.catalog.server.cli.history import administered, db_option, print_entries, shown_time
from interbed.storage.base.terminal import SuggestingGroup, print_columns, print_line, print_lines

if TYPE_CHECKING:
    from interbed.catalog.server.service.access.builtin import AccessExplanation
    from interbed.catalog.server.service.access.granting import GrantRequest
    from interbed.catalog.server.service.access.objects import Grant, Grantee, Privilege, SecuredObject

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_catalog = click.option(
    "--catalog", default="hive", show_default=True, metavar="NAME", help="The catalog of databases, tables, functions."
)

_columns = click.option(
    "--columns", metavar="NAME,...", help="Only on these columns of the table. Columns have the privilege SELECT alone."
)

_SEE = "SEE"


@click.command(short_help="Give privileges to a user, a group or a role.")
@db_option
@_catalog
@click.argument("words", nargs=-1, required=True, metavar="PRIVILEGE... on KIND [NAME] to user|group|role NAME")
@_columns
@click.option("--grant-option", is_flag=True, help="The grantee may give the privileges to others.")
def grant(*, db: str | None, catalog: str, words: tuple[str, ...], columns: str | None, grant_option: bool) -> None:
    """Give privileges on an object to a user, a group or a role: `grant SELECT,INSERT on table sales.orders to role
    etl`. KIND is server (without a name), catalog, database, table, function or column, whose name is
    DATABASE.TABLE.COLUMN. Views are tables. `grant SELECT --columns id,city on table sales.orders to role etl` gives
    the privilege on these columns alone.
    """
    requests = _requests(words, "to", catalog, columns=columns, grant_option=grant_option)
    with administered(db) as access:
        access.grant(requests, None)
    for each in requests:
        option = " with grant option" if each.grant_option else ""
        print_line(f"granted {each.privilege} on the {each.on} to the {each.to}{option}")


@click.command(short_help="Revoke privileges from a user, a group or a role.")
@db_option
@_catalog
@click.argument("words", nargs=-1, required=True, metavar="PRIVILEGE... on KIND [NAME] from user|group|role NAME")
@_columns
@click.option("--grant-option-only", is_flag=True, help="The grantee keeps the privileges, without the grant option.")
@click.option("--cascade", is_flag=True, help="Revoke also what the grantee gave to others by its grant option.")
def revoke(
    *,
    db: str | None,
    catalog: str,
    words: tuple[str, ...],
    columns: str | None,
    grant_option_only: bool,
    cascade: bool,
) -> None:
    """Revoke privileges on an object: `revoke INSERT on table sales.orders from user ann`. ALL revokes each privilege
    that the grantee has on the object. Servers refuse it within a second.
    """
    requests = _requests(words, "from", catalog, columns=columns)
    with administered(db) as access:
        revoked = access.revoke(requests, None, grant_option_only=grant_option_only, cascade=cascade)
        dependent = [] if cascade else access.dependent(revoked)
    for each in revoked:
        what = f"the grant option of {each.privilege}" if grant_option_only else str(each.privilege)
        print_line(f"revoked {what} on the {each.on} from the {each.to}")
    for each in dependent:
        print_line(
            f"note: {each.privilege} on the {each.on} for the {each.to}, which {each.grantor} gave by it, stays; "
            "--cascade revokes it as well",
            err=True,
        )


@click.command(name="grants", short_help="List the privileges that are granted.")
@db_option
@_catalog
@click.option("--on", "on_text", metavar="'KIND NAME'", help="Only those on this object, such as 'table sales.orders'.")
@click.option("--to", "to_text", metavar="'KIND NAME'", help="Only those of this grantee, such as 'role etl'.")
@click.option("--history", "is_history", is_flag=True, help="Show the changes of all roles and grants instead.")
@_json
def list_grants(
    *,
    db: str | None,
    catalog: str,
    on_text: str | None,
    to_text: str | None,
    is_history: bool,
    as_json: bool,
) -> None:
    """List the privileges that are granted, the oldest first. Owners have all privileges without grants."""
    if is_history:
        _print_changes(db, as_json=as_json)
        return
    on = None if on_text is None else _parsed_object(on_text.split(None, 1), catalog)
    to = None if to_text is None else parsed_grantee(to_text.split(None, 1))
    with administered(db) as access:
        found = access.grants(None, on=on, to=to)
    if as_json:
        click.echo(json.dumps([_grant_json(each) for each in found], indent=2))
        return
    if not found:
        print_line("No grants.")
        return
    print_columns(
        [
            ["PRIVILEGE", "ON", "TO", "GRANT OPTION", "BY", "GRANTED"],
            *(
                [
                    str(each.privilege),
                    str(each.on),
                    str(each.to),
                    "yes" if each.grant_option else "no",
                    each.grantor or "",
                    shown_time(each.granted_at),
                ]
                for each in found
            ),
        ]
    )


@click.command(name="why-denied", short_help="Explain why a user may or may not do something.")
@db_option
@_catalog
@click.argument("principal")
@click.argument("privilege")
@click.argument("words", nargs=-1, required=True, metavar="KIND [NAME]")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group of the principal; may be repeated.")
@_json
def why_denied(
    *,
    db: str | None,
    catalog: str,
    principal: str,
    privilege: str,
    words: tuple[str, ...],
    groups: tuple[str, ...],
    as_json: bool,
) -> None:
    """Explain why a user may use a privilege on an object, or not: `why-denied ann SELECT table sales.orders`. The
    privilege SEE asks whether the object exists for the user. The exit code is 0 if it is permitted, otherwise 1.
    """
    from interbed.catalog.server.service.access.objects import Access, Caller

    wanted = None if privilege.upper() == _SEE else _parsed_privilege(privilege)
    question = Access(wanted, _parsed_object(words, catalog))
    with administered(db) as access:
        found = access.explain(Caller(principal, frozenset(groups)), question)
    if as_json:
        click.echo(json.dumps(_explanation_json(principal, found), indent=2))
    else:
        _print_explanation(principal, found)
    if not found.is_permitted:
        raise click.exceptions.Exit(1)


def parsed_grantee(words: Sequence[str]) -> "Grantee":
    """Return the grantee of the words of a command, `user ann`. UsageError."""
    from interbed.catalog.server.service.access.objects import Grantee, GranteeKind, role_named

    kinds = {str(kind): kind for kind in GranteeKind}
    if len(words) != 2 or words[0].lower() not in kinds:
        raise click.UsageError(f"{' '.join(words)!r} is not `user NAME`, `group NAME` or `role NAME`")
    kind = kinds[words[0].lower()]
    return role_named(words[1]) if kind is GranteeKind.ROLE else Grantee(kind, words[1])


def _requests(
    words: Sequence[str],
    before_grantee: str,
    catalog: str,
    *,
    columns: str | None = None,
    grant_option: bool = False,
) -> "list[GrantRequest]":
    """Return the requests of `PRIVILEGE... on KIND [NAME] to|from KIND NAME`, perhaps on columns of a table.
    UsageError.
    """
    from interbed.catalog.server.service.access.granting import GrantRequest

    lower = [word.lower() for word in words]
    if "on" not in lower[1:] or lower[-3:-2] != [before_grantee]:
        raise click.UsageError(f"expected PRIVILEGE... on KIND [NAME] {before_grantee} user|group|role NAME")
    split = lower.index("on", 1)
    privileges = [name for word in words[:split] for name in word.split(",") if name]
    on = _parsed_object(words[split + 1 : -3], catalog)
    to = parsed_grantee(words[-2:])
    objects = [on] if columns is None else _parsed_columns(on, columns)
    return [
        GrantRequest(privilege=_parsed_privilege(name), on=each, to=to, grant_option=grant_option)
        for name in privileges
        for each in objects
    ]


def _parsed_columns(table: "SecuredObject", text: str) -> "list[SecuredObject]":
    """Return the columns of `--columns a,b`. UsageError."""
    from interbed.catalog.server.service.access.objects import SecuredKind, column_object
    from interbed.catalog.server.service.names import normalized

    names = list(dict.fromkeys(normalized(name) for name in text.split(",")))
    if table.kind is not SecuredKind.TABLE or not all(names):
        raise click.UsageError(f"--columns {text!r} names columns of a table or a view: `--columns a,b on table NAME`")
    return [column_object(table, name) for name in names]


def _parsed_privilege(name: str) -> "Privilege":
    from interbed.catalog.server.service.access.objects import Privilege

    try:
        return Privilege(name.upper())
    except ValueError:
        raise click.UsageError(f"there is no privilege {name}; there are {', '.join(Privilege)}") from None


def _parsed_object(words: Sequence[str], catalog: str) -> "SecuredObject":
    """Return the object of `KIND [NAME]`. UsageError."""
    from interbed.catalog.server.service.access.objects import SERVER, SecuredKind, SecuredObject
    from interbed.catalog.server.service.names import normalized

    kind, *names = [word for word in words if word] or [""]
    kinds = {str(each): each for each in SecuredKind} | {"view": SecuredKind.TABLE}
    found = kinds.get(kind.lower())
    if found is SecuredKind.SERVER and not names:
        return SERVER
    parts = normalized(names[0]).split(".", 1) if len(names) == 1 else []
    home = normalized(catalog)
    if found is SecuredKind.CATALOG and len(names) == 1:
        return SecuredObject(found, normalized(names[0]))
    if found is SecuredKind.DATABASE and len(names) == 1:
        return SecuredObject(found, home, normalized(names[0]))
    if found is not None and found in (SecuredKind.TABLE, SecuredKind.FUNCTION) and len(parts) == 2:
        return SecuredObject(found, home, *parts)
    of_column = normalized(names[0]).split(".", 2) if len(names) == 1 else []
    if found is SecuredKind.COLUMN and len(of_column) == 3 and all(of_column):
        return SecuredObject(found, home, *of_column)
    raise click.UsageError(
        f"{' '.join(words)!r} is not an object: `server`, `catalog NAME`, `database NAME`, `table DATABASE.NAME`, "
        "`function DATABASE.NAME` or `column DATABASE.TABLE.NAME`"
    )


def _print_changes(db: str | None, *, as_json: bool) -> None:
    from interbed.catalog.server.service.history.shown import entry_json

    with administered(db) as access:
        entries = access.changes(None)
    if as_json:
        click.echo(json.dumps([entry_json(entry) for entry in entries], indent=2))
    else:
        print_entries(entries)


def _grant_json(each: "Grant") -> dict[str, Any]:
    return {
        "privilege": str(each.privilege),
        "kind": str(each.on.kind),
        "catalog": each.on.catalog,
        "database": each.on.database,
        "name": each.on.name,
        **({} if each.on.column is None else {"column": each.on.column}),
        "grantee_kind": str(each.to.kind),
        "grantee": each.to.name,
        "grant_option": each.grant_option,
        "grantor": each.grantor,
        "granted_at": each.granted_at,
    }


def _explanation_json(principal: str, found: "AccessExplanation") -> dict[str, Any]:
    return {
        "principal": principal,
        "privilege": None if found.question.privilege is None else str(found.question.privilege),
        "on": str(found.question.on),
        "exists": found.exists,
        "permitted": found.is_permitted,
        "reasons": list(found.reasons),
        "roles": list(found.roles),
        "grants": [_grant_json(each) for each in found.grants],
        "owners": {str(on): str(owner) for on, owner in found.owners.items()},
        "would_permit": list(found.remedies),
    }


def _print_explanation(principal: str, found: "AccessExplanation") -> None:
    on, privilege = found.question.on, found.question.privilege
    verb = "see" if privilege is None else f"use {privilege} on"
    print_line(f"{principal} may {'' if found.is_permitted else 'not '}{verb} the {on}")
    if not found.exists:
        print_line(f"The {on} does not exist; grants on what it is in count.")
    for title, lines in (
        ("Because:", found.reasons),
        ("Roles:", found.roles),
        ("Grants to the user, its groups and roles, on the object and on what it is in:", _grant_lines(found.grants)),
        ("Owners:", [f"{place}: {owner}" for place, owner in found.owners.items()]),
        ("One of these would permit it:", found.remedies),
    ):
        if lines:
            print_line(title)
            print_lines([f"  {line}" for line in lines], empty="")


def _grant_lines(grants: "Sequence[Grant]") -> list[str]:
    return [f"{each.privilege} on {each.on} to {each.to}" for each in grants]


COMMANDS = (grant, revoke, list_grants, why_denied)


_member = click.argument("member", nargs=2, metavar="user|group|role NAME")


@click.group(name="roles", cls=SuggestingGroup)
def roles() -> None:
    """Roles that privileges are granted to, and their members."""


@roles.command()
@db_option
@click.argument("name")
def create(*, db: str | None, name: str) -> None:
    """Create a role. Names of roles are in lower case."""
    with administered(db) as access:
        access.create_role(name, None)
    print_line(f"created the role {name.strip().lower()}")


@roles.command()
@db_option
@click.argument("name")
def drop(*, db: str | None, name: str) -> None:
    """Drop a role with its members and its grants."""
    with administered(db) as access:
        access.drop_role(name, None)
    print_line(f"dropped the role {name.strip().lower()}")


@roles.command(name="list")
@db_option
@_json
def list_roles(*, db: str | None, as_json: bool) -> None:
    """List all roles of the metastore."""
    with administered(db) as access:
        found = access.roles(None)
    if as_json:
        rows = [{"name": each.name, "created_by": each.created_by, "created_at": each.created_at} for each in found]
        click.echo(json.dumps(rows, indent=2))
        return
    cells = [
        [each.name, each.created_by or "", shown_time(each.created_at) if each.created_at else ""] for each in found
    ]
    print_columns([["ROLE", "BY", "CREATED"], *cells])


@roles.command()
@db_option
@click.argument("role")
@_json
def members(*, db: str | None, role: str, as_json: bool) -> None:
    """List the members of a role. Those of the setting `access_admins` are in the role `admin`, too."""
    with administered(db) as access:
        found = access.members(role, None)
    if as_json:
        rows = [
            {
                "kind": str(each.member.kind),
                "name": each.member.name,
                "admin_option": each.admin_option,
                "grantor": each.grantor,
                "granted_at": each.granted_at,
            }
            for each in found
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    if not found:
        print_line("No members.")
        return
    cells = [
        [str(each.member), "yes" if each.admin_option else "no", each.grantor or "", shown_time(each.granted_at)]
        for each in found
    ]
    print_columns([["MEMBER", "ADMIN OPTION", "BY", "ADDED"], *cells])


@roles.command()
@db_option
@click.argument("role")
@_member
@click.option("--admin-option", is_flag=True, help="The member may change the members of the role.")
def add(*, db: str | None, role: str, member: tuple[str, str], admin_option: bool) -> None:
    """Add a user, a group or a role to a role: `roles add etl user ann`."""
    grantee = parsed_grantee(member)
    with administered(db) as access:
        access.add_member(role, grantee, None, admin_option=admin_option)
    print_line(f"added the {grantee} to the role {role.strip().lower()}")


@roles.command()
@db_option
@click.argument("role")
@_member
@click.option("--admin-option-only", is_flag=True, help="The member stays, without the admin option.")
def remove(*, db: str | None, role: str, member: tuple[str, str], admin_option_only: bool) -> None:
    """Remove a member of a role. Servers refuse what it had by the role within a second."""
    grantee = parsed_grantee(member)
    with administered(db) as access:
        access.remove_member(role, grantee, None, admin_option_only=admin_option_only)
    what = "the admin option of the" if admin_option_only else "the"
    print_line(f"removed {what} {grantee} from the role {role.strip().lower()}")
