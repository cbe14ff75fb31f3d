"""The pages of catalogs, databases and tables, by the service calls of the other interfaces.

Lists have one entry of the catalog for each line, and no counts: a page of tables is one statement.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from interbed.catalog.server.console.rendering import Crumbs, PageTemplates, address
from interbed.catalog.server.rest.interface import (
    ObjectKind,
    RestError,
    RestRequest,
    RestResponse,
    RestRoute,
    route,
)
from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.service.model import (
    PAIMON_KINDS,
    ConstraintKind,
    MetastoreColumn,
    MetastoreTable,
    TableKind,
)
from interbed.catalog.server.service.names import normalized
from interbed.catalog.server.service.service import Metastore
from interbed.storage.base.shown_text import all_masked

DATABASES_MAX = 500
"""Databases of a page."""

TABLES_MAX = 100
"""Tables of a page."""

CATALOG = "catalogs/{prefix}"
DATABASE = f"{CATALOG}/databases/{{database}}"
TABLE = f"{DATABASE}/tables/{{table}}"

KINDS: Mapping[TableKind, str] = {
    TableKind.HIVE: "Hive table",
    TableKind.VIEW: "view",
    TableKind.ICEBERG: "Iceberg table",
    TableKind.ICEBERG_VIEW: "Iceberg view",
    TableKind.PAIMON: "interbed table",
    TableKind.PAIMON_AND_ICEBERG: "interbed table with Iceberg metadata",
    TableKind.FORMAT: "format table",
    TableKind.OBJECT: "object table",
}

_DIGITS_MAX = 18

_PRIMARY_KEY = "primary-key"
"""Paimon's option with the columns of the key."""


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """A column on the page of its table; `keys` says which keys it is in."""

    name: str
    type: str
    comment: str
    keys: str


class CatalogPages:
    """The pages of the objects of a metastore."""

    def __init__(self, metastore: Metastore, templates: PageTemplates) -> None:
        self._metastore = metastore
        self._templates = templates

    def routes(self) -> Sequence[RestRoute]:
        """Return the routes with the privilege that each needs."""
        usage, select = Privilege.USAGE, Privilege.SELECT
        return [
            route("GET", "", "home", usage, ObjectKind.SERVER, self.home),
            route("GET", CATALOG, "catalog", usage, ObjectKind.CATALOG, self.catalog),
            route("GET", DATABASE, "database", usage, ObjectKind.DATABASE, self.database),
            route("GET", TABLE, "table", select, ObjectKind.TABLE, self.table),
        ]

    def home(self, request: RestRequest) -> RestResponse:
        """Show the catalogs that the caller sees."""
        names = self._metastore.catalogs.names()
        return self._templates.page(request, "home.html", "Catalogs", [], names=names)

    def catalog(self, request: RestRequest) -> RestResponse:
        """Show a catalog with its databases that the caller sees."""
        found = self._metastore.catalogs.get(request.parts["prefix"])
        prefix, after = _prefix(request), request.query.get("after", "")
        every = self._metastore.databases.names(found.name)
        names = [name for name in every if name.startswith(prefix) and name > after]
        more = names[DATABASES_MAX - 1] if len(names) > DATABASES_MAX else None
        here = ("catalogs", found.name)
        return self._templates.page(
            request,
            "catalog.html",
            found.name,
            crumbs_of(found.name),
            catalog=found,
            names=names[:DATABASES_MAX],
            prefix=prefix,
            after=after,
            first=address(*here, prefix=prefix),
            following=None if more is None else address(*here, prefix=prefix, after=more),
        )

    def database(self, request: RestRequest) -> RestResponse:
        """Show a database, and a page of its tables that the caller sees."""
        catalog = normalized(request.parts["prefix"])
        found = self._metastore.databases.get(catalog, request.parts["database"])
        prefix, after = _prefix(request), request.query.get("after", "")
        rows = self._metastore.table_pages.page(catalog, found.name, after=after, limit=TABLES_MAX + 1, prefix=prefix)
        here = ("catalogs", catalog, "databases", found.name)
        more = rows[TABLES_MAX - 1].name if len(rows) > TABLES_MAX else None
        return self._templates.page(
            request,
            "database.html",
            found.name,
            crumbs_of(catalog, found.name),
            catalog=catalog,
            database=found,
            properties=sorted(all_masked(found.parameters).items()),
            rows=[(each, KINDS[each.kind], _owner(each.owner)) for each in rows[:TABLES_MAX]],
            prefix=prefix,
            after=after,
            first=address(*here, prefix=prefix),
            following=None if more is None else address(*here, prefix=prefix, after=more),
        )

    def table(self, request: RestRequest) -> RestResponse:
        """Show the entry of a table or a view."""
        parts = request.parts
        catalog = normalized(parts["prefix"])
        found = self._metastore.tables.get(catalog, parts["database"], parts["table"])
        keys = self._keys(found)
        return self._templates.page(
            request,
            "table.html",
            found.name,
            crumbs_of(catalog, found.database, found.name),
            table=found,
            kind=KINDS[found.kind],
            is_external=found.is_external,
            columns=_columns(() if found.storage is None else found.storage.columns, keys),
            partition_columns=_columns(found.partition_keys, keys),
            parameters=sorted(all_masked(found.parameters).items()),
            storage=_storage(found),
            versions=_versions_address(found) if found.kind in PAIMON_KINDS else None,
        )

    def _keys(self, table: MetastoreTable) -> Mapping[str, str]:
        """Return the keys that columns are in, by the names of these in lower case."""
        constraints = self._metastore.constraints.select(None, table.catalog, table.database, table.name)
        named = {ConstraintKind.PRIMARY_KEY: "primary key", ConstraintKind.UNIQUE: "unique"}
        found: dict[str, list[str]] = {}
        declared = [each.strip() for each in table.parameters.get(_PRIMARY_KEY, "").split(",") if each.strip()]
        for column in declared:
            found.setdefault(column.lower(), []).append("primary key")
        for constraint in constraints:
            key = named.get(constraint.kind)
            if key is None:
                continue
            for column in constraint.columns:
                texts = found.setdefault(column.lower(), [])
                if key not in texts:
                    texts.append(key)
        return {name: ", ".join(texts) for name, texts in found.items()}


def crumbs_of(*names: str) -> Crumbs:
    """Return the path to the page of a catalog, a database or a table."""
    parts: list[str] = []
    crumbs: Crumbs = [("Catalogs", address())]
    for kind, name in zip(("catalogs", "databases", "tables"), names, strict=False):
        parts += [kind, name]
        crumbs.append((name, address(*parts)))
    crumbs[-1] = (crumbs[-1][0], None)
    return crumbs


def number_given(text: str, problem: str, *, least: int = 0) -> int:
    """Return a number in an address or a form. RestError with the problem for another text, and for a lesser one."""
    if text.isascii() and text.isdecimal() and 0 < len(text) <= _DIGITS_MAX and int(text) >= least:
        return int(text)
    raise RestError(HTTPStatus.BAD_REQUEST, "BadRequest", problem)


def _versions_address(table: MetastoreTable) -> str:
    return address("catalogs", table.catalog, "databases", table.database, "tables", table.name, "versions")


def _prefix(request: RestRequest) -> str:
    """Return the beginning of names that a list is filtered by; names have lower case."""
    found = request.query.get("prefix", "").strip().lower()
    if "\0" in found + request.query.get("after", ""):
        raise RestError(HTTPStatus.BAD_REQUEST, "BadRequest", "A name has no character of the number 0.")
    return found


def _columns(columns: Sequence[MetastoreColumn], keys: Mapping[str, str]) -> list[ShownColumn]:
    return [
        ShownColumn(each.name, each.type or "", each.comment or "", keys.get(each.name.lower(), "")) for each in columns
    ]


def _storage(table: MetastoreTable) -> list[tuple[str, str]]:
    """Return what the entry of a table says of its files, without what it leaves open."""
    storage = table.storage
    if storage is None:
        return []
    serde = storage.serde
    found = [
        ("Input format", storage.input_format),
        ("Output format", storage.output_format),
        ("SerDe", None if serde is None else serde.library),
    ]
    options = {} if serde is None else all_masked(serde.parameters or {})
    shown = [(name, value) for name, value in found if value]
    return [*shown, *((f"SerDe: {name}", str(value)) for name, value in sorted(options.items()))]


def _owner(key: str | None) -> str:
    """Return the owner of a table for people; the text of a grantee begins with its kind."""
    if key is None:
        return ""
    kind, _, name = key.partition(":")
    return name if kind == "user" else f"{kind} {name}"
