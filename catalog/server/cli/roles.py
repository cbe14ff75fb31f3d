"""`interbed metastore roles create | drop | list | members | add | remove`: the roles of a server, in its database."""

import json

import click

from interbed.catalog.server.cli.dropped import shown_time
from interbed.catalog.server.cli.grants import parsed_grantee
from interbed.catalog.server.cli.opened import administered, db_option
from interbed.storage.base.terminal import SuggestingGroup, print_columns, print_line

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
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
