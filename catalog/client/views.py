"""Views: queries by name. A metastore keeps them; a file-system catalog has nowhere to, as in Paimon."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from interbed.catalog.client.errors import ViewNotFoundError
from interbed.catalog.client.identifier import Identifier, parse_table_name
from interbed.storage.base.errors import NotSupportedError


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column of a view: its name, its type as Hive calls it (`array<int>`), and its comment."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A query in Spark's SQL, the columns that it has, and what is said of it."""

    query: str
    columns: tuple[ViewColumn, ...]
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


class Views(ABC):
    """The part of a catalog that keeps views; without more it has none."""

    name: str

    @property
    @abstractmethod
    def described(self) -> str:
        """The catalog in messages."""
        ...

    @abstractmethod
    def get_database(self, name: str) -> object: ...

    def list_views(self, database: str) -> list[str]:
        """Names of the database's views, sorted; raises DatabaseNotFoundError."""
        self.get_database(database)
        return []

    def get_view(self, identifier: "str | Identifier") -> View:
        """The view of that name; raises ViewNotFoundError."""
        raise ViewNotFoundError(f"There is no view '{parse_table_name(identifier)}' in {self.described}.")

    def create_view(
        self,
        identifier: "str | Identifier",
        view: View,
        ignore_if_exists: bool = False,
        *,
        replace: bool = False,
    ) -> None:
        """Keep a view; with `replace` in place of the one of that name, in one step.

        Raises TableExistsError where a table or a view has the name, DatabaseNotFoundError, and NotSupportedError in a
        catalog that keeps no views.
        """
        raise self._no_views()

    def drop_view(self, identifier: "str | Identifier", ignore_if_not_exists: bool = False) -> None:
        """Forget a view; raises ViewNotFoundError."""
        if not ignore_if_not_exists:
            self.get_view(identifier)

    def rename_view(self, source: "str | Identifier", target: "str | Identifier") -> None:
        """Give a view another name; raises ViewNotFoundError, TableExistsError."""
        self.get_view(source)

    def _no_views(self) -> NotSupportedError:
        return NotSupportedError(
            "A file-system catalog keeps no views; use one with 'metastore' = 'hive', or a temporary view."
        )
