"""A directory of tables without a metastore, as Java's and interbed's file-system catalogs make it.

Names, schemas, commits and deletions are those of the file-system catalog of interbed's client: a commit creates
`snapshot-<id>` exclusively, so that clients of REST and writers of the file system exclude each other. There are no
locks, owners, views, functions or registered partitions. The id of a table is that of its names and of the time of its
first schema, as in Java: a table that is dropped and recreated, or renamed, has another one.
"""

from collections.abc import Mapping, Sequence

from interbed.catalog.client.errors import TableNotFoundError
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.catalog.client.identifier import DB_SUFFIX, Identifier, TableName
from interbed.catalog.client.options import CatalogOptions
from interbed.catalog.client.partition import Partition, PartitionSpecs, partitions_of
from interbed.catalog.server.rest.paimon.catalogs.metastore import PLAIN_TYPE, TYPE
from interbed.catalog.server.rest.paimon.catalogs.served import ObjectOrigin, ServedCatalog, TableOrigin, derived_id
from interbed.catalog.server.rest.paimon.refusals import ResourceType, missing, unsupported
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.meta.paths import MAIN_BRANCH
from interbed.storage.table.table import Table


class WarehouseCatalog(FileSystemCatalog, ServedCatalog):
    """The tables in a directory, under a name of the server's settings. Safe for many threads."""

    def __init__(self, name: str, location: str) -> None:
        super().__init__(name, CatalogOptions({"warehouse": location}))
        self.location = location.rstrip("/")

    def names_after(self, database: str, after: str, limit: int | None = None, prefix: str = "") -> list[str]:
        return _after(self.list_tables(database), after, limit, prefix)

    def views_after(self, database: str, after: str, limit: int | None = None, prefix: str = "") -> list[str]:
        return _after(self.list_views(database), after, limit, prefix)

    def database_origin(self, name: str) -> ObjectOrigin:
        self.get_database(name)
        return ObjectOrigin(id=derived_id("database", self.name, name))

    def check_droppable(self, database: str, functions: Sequence[str]) -> None:
        self.get_database(database)

    def is_taken(self, name: Identifier) -> bool:
        return self.table_exists(name)

    def table_id(self, name: Identifier) -> str:
        return self._id_of(name, self._load_table(name))

    def table_origin(self, name: Identifier, table: Table) -> TableOrigin:
        whole = table if table.store.paths.branch == MAIN_BRANCH else self._load_table(name)
        return TableOrigin(
            id=self._id_of(name, whole),
            created_millis=_created_millis(whole),
            path=f"{self.location}/{name.database}{DB_SUFFIX}/{name.table}",
        )

    def view_origin(self, name: Identifier) -> ObjectOrigin:
        raise missing(ResourceType.VIEW, name.table, f"View {name} does not exist.")

    def table_of_id(self, wanted: str) -> TableName | None:
        for database in self.list_databases():
            for table in self.list_tables(database):
                name = Identifier.parse((database, table))
                try:
                    if self.table_id(name) == wanted:
                        return TableName.parse((database, table))
                except TableNotFoundError:
                    # It was dropped since it was listed.
                    continue
        return None

    def table_types(self, database: str, names: Sequence[str]) -> Mapping[str, str]:
        found = {}
        for name in names:
            try:
                outline = self.table_outline(Identifier.parse((database, name)))
            except TableNotFoundError:
                continue
            found[name] = outline.options.get(TYPE, PLAIN_TYPE)
        return found

    def known_partitions(self, name: TableName, table: Table) -> list[Partition]:
        return partitions_of(table)

    def partitions_in_metastore(self, name: Identifier) -> list[dict[str, str]]:
        raise unsupported(
            f"The partitions of '{name}' are those of its files: the warehouse '{self.name}' has no metastore, in "
            "which partitions are registered, removed or marked."
        )

    def unregister_partitions(
        self, identifier: str | Identifier, partitions: PartitionSpecs, *, only_empty: bool = False
    ) -> list[dict[str, str]]:
        return []

    def _id_of(self, name: Identifier, table: Table) -> str:
        return derived_id("table", self.name, name.database, name.table, _created_millis(table))


def _created_millis(table: Table) -> int:
    """Return the time of the first schema of a table. TableNotFoundError if the table is being dropped."""
    try:
        return table.store.schemas.schema(0).time_millis
    except CorruptFileError as error:
        raise TableNotFoundError(f"There is no table '{table.name}', or it is being dropped: {error}") from error


def _after(names: Sequence[str], after: str, limit: int | None, prefix: str) -> list[str]:
    return sorted(name for name in names if name > after and name.startswith(prefix))[:limit]
