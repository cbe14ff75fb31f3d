"""Where a metastore's entry says that its files are.

The field of its own, or with `location-in-properties` the parameter `paimon_location`: for metastores that would
otherwise go to an object store that they can't reach. Both are read then, the parameter first, as Paimon does.
"""

from dataclasses import dataclass
from typing import Any

from interbed.storage.base.fileio.resolve import one_scheme

LOCATION_PARAMETER = "paimon_location"


@dataclass(frozen=True, slots=True)
class Locations:
    """Reads and writes the locations of Database, Table and Partition structures."""

    in_parameters: bool = False

    def of_database(self, database: Any) -> str | None:
        """The location of a database; None when it has none."""
        return self._parameter(database) or database.locationUri or None

    def set_database(self, database: Any, location: str) -> None:
        """Give a database a location."""
        if self.in_parameters:
            database.parameters = {**(database.parameters or {}), LOCATION_PARAMETER: location}
        else:
            database.locationUri = location

    def of(self, entry: Any) -> str:
        """The location of a table or partition; empty when it has none."""
        found = self._parameter(entry) or (entry.sd.location if entry.sd is not None else None)
        return found or ""

    def set(self, entry: Any, location: str) -> None:
        """Give a table or partition, which has a storage descriptor, a location."""
        if self.in_parameters:
            entry.parameters = {**(entry.parameters or {}), LOCATION_PARAMETER: location}
        else:
            entry.sd.location = location

    def _parameter(self, entry: Any) -> str | None:
        return (entry.parameters or {}).get(LOCATION_PARAMETER) if self.in_parameters else None


def same_location(left: str, right: str) -> bool:
    """Whether two spellings name the same directory: `file:/x`, `file:///x` and `/x` do, `s3://b/x` and `s3a://b/x`."""
    return _plain(left) == _plain(right)


def _plain(location: str) -> str:
    path = location.rstrip("/")
    scheme, colon, rest = path.partition(":")
    if scheme == "file":
        return "/" + rest.lstrip("/")
    return f"{one_scheme(scheme)}:{rest}" if colon else path
