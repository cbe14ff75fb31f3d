"""Dropped objects that a server of interbed's keeps, by its own interface `/interbed` beside `/paimon`.

    GET  /interbed/v1/{prefix}/dropped?database=
    POST /interbed/v1/{prefix}/databases/{database}[/tables/{table}]/undrop | purge

Other servers have no such interface.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from interbed.catalog.client.dropped import DroppedEntry
from interbed.catalog.client.errors import DatabaseExistsError, TableExistsError, TableNotFoundError
from interbed.catalog.client.rest.http import RestHttp
from interbed.catalog.client.rest.refusal import CONFLICT, NOT_FOUND, RestRefusedError, catalog_error, encoded
from interbed.storage.base.errors import InvalidInputError, NotSupportedError

OWN_INTERFACE, PAIMON_INTERFACE = "interbed", "paimon"

_MISSING, _TAKEN = "NOSUCHOBJECT", "ALREADYEXISTS"


class RestDrops:
    """The dropped objects of one catalog of a server. Thread-safe; close it after use."""

    def __init__(self, http: RestHttp, prefix: str) -> None:
        self._http = http.beside(OWN_INTERFACE)
        self._root = f"/v1/{encoded(prefix)}"

    def close(self) -> None:
        """Close the idle connections."""
        self._http.close()

    def dropped(self, database: str | None) -> Sequence[Mapping[str, Any]]:
        """Return the dropped objects as JSON, the latest first; NotSupportedError for a server that keeps none."""
        try:
            found = self._http.get(f"{self._root}/dropped", {} if database is None else {"database": database})
        except RestRefusedError as error:
            if error.status == NOT_FOUND:
                raise NotSupportedError(
                    f"The server of this catalog keeps no dropped objects that clients put back: it answers {error}"
                ) from error
            raise catalog_error(error) from error
        listed = found.get("dropped") if isinstance(found, Mapping) else None
        if not isinstance(listed, list):
            raise NotSupportedError(f"{self._http.uri} is not the interface of interbed's server for dropped objects.")
        return listed

    def undrop(self, entry: DroppedEntry, new_name: str | None) -> None:
        """Put the object of a drop back; TableNotFoundError, TableExistsError, DatabaseExistsError, and
        InvalidInputError if its directory is taken or its database does not exist.
        """
        more = {} if new_name is None else {"as": new_name}
        try:
            self._http.post(f"{self._path(entry)}/undrop", {"id": int(entry.id), **more})
        except RestRefusedError as error:
            raise _error(entry, error) from error

    def purge(self, entry: DroppedEntry) -> bool:
        """Delete the object of a drop for good; return whether all of it is deleted. TableNotFoundError."""
        try:
            answer = self._http.post(f"{self._path(entry)}/purge", {"id": int(entry.id)})
        except RestRefusedError as error:
            raise _error(entry, error) from error
        return isinstance(answer, Mapping) and answer.get("purged") is True

    def _path(self, entry: DroppedEntry) -> str:
        database = f"{self._root}/databases/{encoded(entry.database)}"
        return database if entry.name is None else f"{database}/tables/{encoded(entry.name)}"


def _error(entry: DroppedEntry, error: RestRefusedError) -> Exception:
    if error.is_missing(_MISSING):
        return TableNotFoundError(str(error))
    if error.status == CONFLICT and error.resource_type == _TAKEN:
        return (DatabaseExistsError if entry.name is None else TableExistsError)(str(error))
    if error.status == CONFLICT:
        return InvalidInputError(str(error))
    return catalog_error(error)
