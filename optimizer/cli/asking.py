"""`interbed optimizer pause | resume | now`: what people ask of the scheduler for one table."""

from typing import TYPE_CHECKING

import click

from interbed.catalog.client.cli.group import CatalogChoice, json_flag, show, table_name
from interbed.optimizer.cli.common import db_option, looking
from interbed.optimizer.flow.kind import WorkKind
from interbed.storage.base.clock import now_millis

if TYPE_CHECKING:
    from interbed.optimizer.flow.table_state import TableRequest


@click.command()
@table_name
@db_option
@json_flag
@click.pass_obj
def pause(chosen: CatalogChoice, name: str, db: str | None, as_json: bool) -> None:
    """Begin nothing more for a table, until `resume`; what runs for it goes on to its end."""
    from interbed.optimizer.flow.table_state import RequestKind, TableRequest

    _ask(chosen, TableRequest(table=name, kind=RequestKind.PAUSE), db, as_json)


@click.command()
@table_name
@db_option
@json_flag
@click.pass_obj
def resume(chosen: CatalogChoice, name: str, db: str | None, as_json: bool) -> None:
    """Go on with a table that was paused."""
    from interbed.optimizer.flow.table_state import RequestKind, TableRequest

    _ask(chosen, TableRequest(table=name, kind=RequestKind.RESUME), db, as_json)


@click.command()
@table_name
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in WorkKind]),
    default=WorkKind.FULL.value,
    show_default=True,
    help="What is to be done.",
)
@db_option
@json_flag
@click.pass_obj
def now(chosen: CatalogChoice, name: str, kind: str, db: str | None, as_json: bool) -> None:
    """Have one kind of work done next for a table, whether it is due or not, also for one that is paused."""
    from interbed.optimizer.flow.table_state import RequestKind, TableRequest

    _ask(chosen, TableRequest(table=name, kind=RequestKind.NOW, work=WorkKind(kind)), db, as_json)


def _ask(chosen: CatalogChoice, request: "TableRequest", db: str | None, as_json: bool) -> None:
    from interbed.optimizer.views.status import ask

    with looking(chosen, db, request.table, asks=True) as (catalog, journal):
        show(ask(catalog, journal, request, now_millis()), as_json)
