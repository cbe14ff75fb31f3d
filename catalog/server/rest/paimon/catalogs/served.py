"""Protocol of a catalog for Paimon's REST interface, beside the client's interface: origins, ids, known partitions."""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.identifier import Identifier, TableName
from interbed.catalog.client.partition import Partition, PartitionSpecs
from interbed.storage.table.table import Table

_IDS = uuid.UUID("5f0b0c3e-7d5b-5a39-9f0e-4b1f8a2c6d10")
"""Namespace of the ids of objects that have no number."""


def derived_id(*parts: object) -> str:
    """Return an id that the same parts always have."""
    return str(uuid.uuid5(_IDS, "\n".join(map(str, parts))))


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectOrigin:
    """The id of an object, its owner, and the time of its creation in milliseconds since the epoch, 0 if unknown."""

    id: str
    owner: str | None = None
    created_millis: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOrigin(ObjectOrigin):
    """The origin of a table, and its location as clients get it."""

    path: str
    is_external: bool = False


class ServedCatalog(Catalog, ABC):
    """The catalog of some requests."""

    @abstractmethod
    def names_after(self, database: str, after: str, limit: int | None = None, prefix: str = "") -> list[str]:
        """Return up to `limit` names of a database's tables that come after one and begin with a prefix, sorted.

        DatabaseNotFoundError.
        """
        ...

    @abstractmethod
    def views_after(self, database: str, after: str, limit: int | None = None, prefix: str = "") -> list[str]:
        """Return names of a database's views, as names_after."""
        ...

    @abstractmethod
    def database_origin(self, name: str) -> ObjectOrigin:
        """Return the origin of a database. DatabaseNotFoundError."""
        ...

    @abstractmethod
    def check_droppable(self, database: str, functions: Sequence[str]) -> None:
        """Raise RestError with status 400 for a database with objects that its client may not have seen, by which it
        has to decide whether to drop them all; DatabaseNotFoundError. `functions` are those in it.
        """
        ...

    @abstractmethod
    def is_taken(self, name: Identifier) -> bool:
        """Return whether a table or view has a name, in any format."""
        ...

    @abstractmethod
    def table_id(self, name: Identifier) -> str:
        """Return the id of a table, which a table that is recreated does not have. TableNotFoundError."""
        ...

    @abstractmethod
    def table_origin(self, name: Identifier, table: Table) -> TableOrigin:
        """Return the origin of an opened table or of a branch of it. TableNotFoundError."""
        ...

    @abstractmethod
    def view_origin(self, name: Identifier) -> ObjectOrigin:
        """Return the origin of a view. ViewNotFoundError."""
        ...

    @abstractmethod
    def table_of_id(self, wanted: str) -> TableName | None:
        """Return the table of an id; None without one."""
        ...

    @abstractmethod
    def table_types(self, database: str, names: Sequence[str]) -> Mapping[str, str]:
        """Return the option `type` of those of these tables that exist, `table` by default."""
        ...

    @abstractmethod
    def known_partitions(self, name: TableName, table: Table) -> list[Partition]:
        """Return the partitions of a table. RestError with status 501 where clients look for them in the files."""
        ...

    @abstractmethod
    def partitions_in_metastore(self, name: Identifier) -> list[dict[str, str]]:
        """Return the registered partitions of a table. RestError with status 501 if none are registered."""
        ...

    @abstractmethod
    def unregister_partitions(
        self, identifier: str | Identifier, partitions: PartitionSpecs, *, only_empty: bool = False
    ) -> list[dict[str, str]]:
        """Remove the entries of partitions, those without files with `only_empty`; return those that existed."""
        ...
