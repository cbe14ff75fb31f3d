"""Functions of a Paimon REST server."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from interbed.catalog.client.errors import DatabaseNotFoundError, FunctionExistsError, FunctionNotFoundError
from interbed.catalog.client.functions import CatalogFunction, CatalogFunctions, FunctionChange, FunctionName
from interbed.catalog.client.identifier import check_database_name
from interbed.catalog.client.rest.client import RestClient
from interbed.catalog.client.rest.http import CONFLICT, NOT_FOUND, RestRefusedError, catalog_error


class RestFunctions(CatalogFunctions):
    """The part of a REST catalog that has functions."""

    client: RestClient

    def list_functions(self, database: str) -> list[str]:
        try:
            return sorted(self.client.functions(check_database_name(database)))
        except RestRefusedError as error:
            if error.status == NOT_FOUND:
                raise DatabaseNotFoundError(f"There is no database '{database}' in {self.described}.") from error
            raise catalog_error(error) from error

    def get_function(self, identifier: "str | FunctionName") -> CatalogFunction:
        name = FunctionName.of(identifier)
        with self._function_errors(name):
            found = self.client.function(name)
        return CatalogFunction.from_json(found, source=f"The answer of {self.client.uri} about the function '{name}'")

    def create_function(
        self, identifier: "str | FunctionName", function: CatalogFunction, ignore_if_exists: bool = False
    ) -> None:
        name = FunctionName.of(identifier)
        try:
            self.client.create_function(name.database, function.to_json(name.function))
        except RestRefusedError as error:
            if error.status != CONFLICT:
                raise self._of_function(name, error) from error
            if not ignore_if_exists:
                raise FunctionExistsError(f"There is a function '{name}' in {self.described} already.") from error

    def alter_function(
        self,
        identifier: "str | FunctionName",
        changes: Sequence[FunctionChange] | FunctionChange,
        ignore_if_not_exists: bool = False,
    ) -> None:
        name = FunctionName.of(identifier)
        given = [each.to_json() for each in (changes if isinstance(changes, Sequence) else [changes])]
        with self._function_errors(name, ignore_if_not_exists=ignore_if_not_exists):
            self.client.alter_function(name, given)

    def drop_function(self, identifier: "str | FunctionName", ignore_if_not_exists: bool = False) -> None:
        name = FunctionName.of(identifier)
        with self._function_errors(name, ignore_if_not_exists=ignore_if_not_exists):
            self.client.drop_function(name)

    @contextmanager
    def _function_errors(self, name: FunctionName, *, ignore_if_not_exists: bool = False) -> Iterator[None]:
        """Raise refusals as errors about the function."""
        try:
            yield
        except RestRefusedError as error:
            found = self._of_function(name, error)
            if not (ignore_if_not_exists and isinstance(found, FunctionNotFoundError)):
                raise found from error

    def _of_function(self, identifier: FunctionName, error: RestRefusedError) -> Exception:
        if error.is_missing("DATABASE"):
            return DatabaseNotFoundError(f"There is no database '{identifier.database}' in {self.described}.")
        if error.is_missing("FUNCTION", ""):
            return self._no_function(identifier)
        return catalog_error(error)
