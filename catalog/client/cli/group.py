"""Groups of commands about a catalog, and what their commands share.

A group takes the name and the options of the catalog before and after the subcommand. Commands share the output as JSON
or as text, options for partitions, options for the form and the destination of rows, and checks of names: errors about
a missing warehouse, database, table or column suggest an existing one.
"""

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, TypeVar

import click

from interbed.catalog.client.errors import DatabaseNotFoundError, TableNotFoundError
from interbed.catalog.client.table_parts import as_format_table, as_object_table
from interbed.storage.base.errors import InterbedError, InvalidInputError, NotSupportedError
from interbed.storage.base.shown_text import did_you_mean
from interbed.storage.base.terminal import SuggestingGroup, print_line, print_text

if TYPE_CHECKING:
    from interbed.catalog.client.api import Catalog
    from interbed.iceberg.table import IcebergTable
    from interbed.storage.table.table import Table


_Command = TypeVar("_Command", bound=click.Command)

_Function = TypeVar("_Function", bound=Callable[..., Any])

table_name = click.argument("name", metavar="DATABASE.TABLE")
"""Adds the argument `name`, the name of a table."""

FORMATS = ("table", "json", "csv", "parquet")

ROWS_SHOWN = 100
"""The number of rows that a table for people shows unless more are asked for."""

_BY_SUFFIX = {".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".parquet": "parquet"}

_TAKES = (
    "`interbed table describe`, `explain`, `head`, `scan`, `snapshots`, `compact`, `expire-snapshots`, "
    "`remove-orphan-files` and `compact-manifests`, and `interbed sql`"
)


@dataclass(slots=True)
class CatalogChoice:
    """The catalog of a command: a configured name, or the default one, with options that override it."""

    name: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    shows_requests: bool = False

    @contextlib.contextmanager
    def catalog(self, about: str | None = None, *, makes_warehouse: bool = False) -> "Iterator[Catalog]":
        """Open the catalog. `about` is the table or database of the command, DATABASE or DATABASE.TABLE, for
        suggestions in errors.

        Raises InvalidInputError for a warehouse that does not exist, unless the command makes it.
        """
        # Catalogs need Arrow, which the help of a command does not wait for.
        from interbed.catalog.client.factory import open_configured

        with open_configured(self.name, self.options) as catalog:
            if not makes_warehouse:
                check_warehouse(catalog)
            with suggesting(catalog, about):
                yield catalog

    @contextlib.contextmanager
    def table(self, name: str, *, system: bool = False) -> "Iterator[Table]":
        """Open a table of the catalog.

        Raises NotSupportedError for an Iceberg table, and for a system table unless `system` is true.
        """
        with self.any_table(name, system=system) as table:
            check_not_of_iceberg(name, table)
            yield table

    @contextlib.contextmanager
    def any_table(self, name: str, *, system: bool = False) -> "Iterator[Any]":
        """Open a table or an IcebergTable of the catalog, or the Iceberg table at a location, which has a slash.

        Raises NotSupportedError for a system table unless `system` is true.
        """
        if "/" in name:
            yield table_at(name, self._options())
            return
        with self.catalog(name) as catalog:
            table = catalog.get_table(name)
            if not system and not is_of_iceberg(table):
                check_no_system_table(name, table)
            yield table

    def _options(self) -> "dict[str, str]":
        """Return the options of the named catalog, overridden by those given; without a name those given."""
        if self.name is None:
            return self.options
        from interbed.catalog.client.configuration import load_configuration

        return load_configuration().resolved(self.name, self.options)[1]


class CatalogGroup(SuggestingGroup):
    """A group about a catalog: the group and each of its commands take the options that choose one."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        with_catalog(self)

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        super().add_command(with_catalog(cmd), name)


def with_catalog(command: _Command) -> _Command:
    """Add `--catalog`, `--option`, `--stats` to a command, which finds its CatalogChoice as the object
    of the context.
    """
    taken = {name for parameter in command.params for name in parameter.opts}
    if "-o" in taken:
        return command
    command.params += [
        click.Option(
            ["--catalog", "-c"],
            metavar="NAME",
            expose_value=False,
            callback=_named,
            help="The catalog of that name in ~/.interbed.toml.",
        ),
        click.Option(
            [*(name for name in ("--option",) if name not in taken), "-o", "catalog_options"],
            multiple=True,
            metavar="KEY=VALUE",
            expose_value=False,
            callback=_given,
            help="An option of the catalog; repeatable.",
        ),
        click.Option(
            ["--stats"],
            is_flag=True,
            expose_value=False,
            callback=_counted,
            help="Say on standard error what an object store was asked for; as JSON with --json.",
        ),
    ]
    return command


def pairs(given: Iterable[str], *, form: str = "KEY=VALUE", hint: str = "--option") -> dict[str, str]:
    """Return KEY=VALUE texts as a dict; raise BadParameter naming the first invalid one."""
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise click.BadParameter(f"{text!r} is not {form}.", param_hint=hint)
        found[key] = value
    return found


def _named(context: click.Context, _: click.Parameter, name: str | None) -> None:
    chosen = context.ensure_object(CatalogChoice)
    if name is None:
        return
    if chosen.name not in (None, name):
        raise click.UsageError(f"Two catalogs are named: {chosen.name} and {name}.")
    chosen.name = name


def _given(context: click.Context, _: click.Parameter, given: tuple[str, ...]) -> None:
    context.ensure_object(CatalogChoice).options.update(pairs(given))


def _counted(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    chosen = context.ensure_object(CatalogChoice)
    if not wanted or chosen.shows_requests:
        return
    chosen.shows_requests = True
    # The requests of the command are shown also after an error.
    context.call_on_close(lambda: _show_requests(as_json=bool(context.params.get("as_json"))))


def _show_requests(*, as_json: bool) -> None:
    import json
    from dataclasses import asdict

    from interbed.storage.io.cached.blocks import COUNTER
    from interbed.storage.io.stores.requests import requests_so_far

    report, cached = requests_so_far(), COUNTER.counts
    if as_json:
        click.echo(json.dumps({"store": report.to_json(), "localCache": asdict(cached)}), err=True)
        return
    print_line(f"store: {report}", err=True)
    if cached.hits or cached.misses:
        print_line(f"local cache: {cached.hits:,} of {cached.hits + cached.misses:,} blocks", err=True)


class PrintableView(Protocol):
    """A view that is printed as text by `str`, or as JSON."""

    def to_json(self) -> dict[str, Any]:
        """Return the view as a JSON object."""
        ...


def json_flag(command: _Function) -> _Function:
    """Add `--json`, as `as_json`, to a command."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def partition_options(command: _Function) -> _Function:
    """Add `--partition`, as `partition`, to a command."""
    return click.option(
        "--partition", "-p", multiple=True, metavar="COLUMN=VALUE", help="Partitions with this value only; repeatable."
    )(command)


def partition_spec(given: Iterable[str]) -> dict[str, object] | None:
    """Return the partition specification; None for the whole table."""
    return dict(pairs(given, form="COLUMN=VALUE", hint="--partition")) or None


def names(given: Iterable[str]) -> list[str]:
    """Return the names of an option that is repeatable and takes several with commas between them."""
    return [name.strip() for text in given for name in text.split(",") if name.strip()]


def show(view: PrintableView, as_json: bool) -> None:
    """Print a view as text or as JSON."""
    if as_json:
        show_json(view.to_json())
    else:
        print_text(str(view))


def show_json(value: object) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2))


def done(what: str, result: dict[str, object], as_json: bool) -> None:
    """Print the result of a command: a sentence, or its figures as JSON."""
    if as_json:
        show_json(result)
    else:
        print_text(what)


def output_options(command: _Function) -> _Function:
    """Add `--format`, `--json` and `--output`, which choose the form and the destination of rows."""
    command = click.option(
        "--output",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Write to this file instead; its suffix says the format unless --format does.",
    )(command)
    command = click.option("--json", "as_json", is_flag=True, help="The same as --format json: an object a line.")(
        command
    )
    return click.option(
        "--format", "form", type=click.Choice(FORMATS), help="The form of the rows; table by default, for people."
    )(command)


def chosen_form(form: str | None, output: Path | None, as_json: bool) -> str:
    """Return the form of the rows; raise UsageError when the options contradict each other."""
    if as_json and form not in (None, "json"):
        raise click.UsageError(f"Give --json or --format {form}, not both.")
    if form is None and not as_json and output is not None:
        form = _BY_SUFFIX.get(output.suffix.lower())
        if form is None:
            raise click.UsageError(f"The name of {output} says no format; give --format.")
    form = "json" if as_json else form or "table"
    if form == "table" and output is not None:
        raise click.UsageError("A table is for people; a file takes json, csv or parquet.")
    if form == "parquet" and output is None and sys.stdout.isatty():
        raise click.UsageError("Parquet is not for terminals; give --output FILE, or a pipe.")
    return form


def check_warehouse(catalog: "Catalog") -> None:
    """Raise InvalidInputError when the directory of a file-system catalog does not exist."""
    from interbed.catalog.client.filesystem import FileSystemCatalog

    if isinstance(catalog, FileSystemCatalog) and not catalog.file_io.exists(catalog.warehouse):
        raise InvalidInputError(
            f"The warehouse {catalog.warehouse} does not exist. `interbed catalog create-database NAME` makes it."
        )


@contextlib.contextmanager
def suggesting(catalog: "Catalog", about: str | None) -> Iterator[None]:
    """Add the name of an existing table or database to errors about a missing one."""
    try:
        yield
    except (TableNotFoundError, DatabaseNotFoundError) as error:
        raise type(error)(f"{error}{'' if about is None else _near(catalog, about)}") from error


def check_columns(table: str, known: Sequence[str], wanted: Iterable[str]) -> None:
    """Raise InvalidInputError naming the first column that the table does not have."""
    for name in wanted:
        if name not in known:
            raise InvalidInputError(
                f"The table '{table}' has no column '{name}'; it has {', '.join(known)}.{did_you_mean(name, known)}"
            )


def check_no_system_table(name: str, table: object) -> None:
    """Raise NotSupportedError for a system table, which has rows but is no table of its own."""
    from interbed.storage.table.table import Table

    if as_object_table(table) is not None:
        raise NotSupportedError(
            f"'{name}' is an object table; it takes `interbed table head`, `scan`, `describe`, `rename` and `drop`, "
            "and `interbed sql`."
        )
    if not isinstance(table, Table) and as_format_table(table) is None:
        raise NotSupportedError(
            f"'{name}' is a system table; it takes `interbed table head`, `scan` and `interbed sql`."
        )


def _near(catalog: "Catalog", about: str) -> str:
    database, _, table = about.partition(".")
    with contextlib.suppress(InterbedError):
        databases = catalog.list_databases()
        if database not in databases:
            return did_you_mean(database, databases)
        tables = [f"{database}.{name}" for name in catalog.list_tables(database)]
        return did_you_mean(f"{database}.{table.partition('$')[0]}", tables) if table else ""
    return ""


def is_of_iceberg(table: object) -> "TypeGuard[IcebergTable]":
    """Return whether an opened table is an Iceberg table; import nothing for that."""
    module = sys.modules.get("interbed.iceberg.table")
    return module is not None and isinstance(table, module.IcebergTable)


def check_not_of_iceberg(name: str, table: object) -> None:
    """Raise NotSupportedError for an Iceberg table, which the command does not support."""
    if is_of_iceberg(table):
        raise NotSupportedError(f"'{name}' is a table of Iceberg's; it takes {_TAKES}.")


def refuse_options(what: str, given: Mapping[str, object]) -> None:
    """Raise NotSupportedError for given options that the command does not support for `what`."""
    for name, value in given.items():
        if value is not None:
            raise NotSupportedError(f"{name} is not for {what}.")


def table_at(location: str, options: Mapping[str, str]) -> "IcebergTable":
    """Return the Iceberg table in a directory or of a metadata file; `options` are those of a catalog for its file
    system.
    """
    from interbed.iceberg.table import load_iceberg_table, store_properties

    return load_iceberg_table(location, store_properties(options), name=location)
