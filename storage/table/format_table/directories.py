"""Partitions and files of a format table: directories `dt=2026-01-31/h=1`, or `2026-01-31/1` with only values.

Files and directories whose names begin with `_` or `.` are hidden: those of other writers' jobs, and of writes that are
not complete. One such name is a partition: that of null values, where directories have only values. Directories below
that of a partition belong to it. Source: paimon-core `table.format.FormatTableScan`, `utils.PartitionPathUtils`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from interbed.storage.base.errors import CorruptFileError, InvalidInputError, NotSupportedError, StorageAccessError
from interbed.storage.base.row.binary_row import decode_row
from interbed.storage.io.api import FileIO, FileStatus
from interbed.storage.meta.paths import TablePaths, escape_path, unescape_path
from interbed.storage.scan.partition_filter import Partitions, partition_choice, partition_filter
from interbed.storage.table.format_table.definition import FormatDefinition

HIDDEN = ("_", ".")
STAGING = "_temporary"
"""Directory of files that are not complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatPartition:
    """A partition: its row, the text of its values as its directory has them, and the directory.

    The row and the values are empty for a table without partitions, whose directory is that of the table. Several
    directories may have one row: `p=1` and `p=01` of an INT. `definition` is that of files of another format than the
    table's, None for files of the table's own.
    """

    row: bytes
    spec: Mapping[str, str]
    location: str
    definition: FormatDefinition | None = None


class PartitionRegister(Protocol):
    """Register of the partitions of a table in a catalog."""

    def partitions(self) -> Iterable[tuple[Mapping[str, str], str, FormatDefinition | None]]:
        """Return values and directory of each registered partition, and its own format if it has one."""
        ...

    def add(self, partitions: Sequence[FormatPartition]) -> None:
        """Register partitions; those that are registered stay as they are."""
        ...

    def remove(self, specs: Sequence[Mapping[str, str]]) -> None:
        """Remove partitions from the register; missing ones are no error."""
        ...


class FormatDirectories:
    """The directories of a table at a location.

    With a `register` its partitions are partitions of the table, wherever they are; unless `discovers`, no others are.
    """

    def __init__(
        self,
        location: str,
        file_io: FileIO,
        definition: FormatDefinition,
        register: PartitionRegister | None = None,
        *,
        discovers: bool = True,
    ) -> None:
        self.location = location.rstrip("/") or "/"
        self.file_io = file_io
        self.register = register
        self._definition = definition
        self._discovers = discovers or register is None
        self._places: Counter[str] = Counter()
        """Number of partitions by directory, as they were listed last."""
        schema, options = definition.schema, definition.options
        self._keys = schema.partition_keys
        self.paths = TablePaths(
            self.location,
            self._keys,
            schema.partition_types,
            options.partition_default_name,
            options.partition_legacy_name,
        )

    # -- partitions ----------------------------------------------------------------------------------------------------

    def partitions(self) -> list[FormatPartition]:
        """Return all partitions; the table itself when it has no partition columns.

        Directories whose texts differ are different partitions, also if their values are equal. Raises CorruptFileError
        naming a directory whose values do not fit their columns.
        """
        if not self._keys:
            return [FormatPartition(row=b"", spec={}, location=self.location)]
        found: dict[tuple[str, ...], FormatPartition] = {}
        if self.register is not None:
            for spec, location, definition in self.register.partitions():
                values = tuple(spec[key] for key in self._keys)
                found[values] = self._partition(values, location, definition)
        if self._discovers:
            for values, location in self._discovered(self.location, ()):
                if values not in found:
                    found[values] = self._partition(values, location)
        self._places = Counter(each.location for each in found.values())
        return [found[values] for values in sorted(found)]

    def check_owned(self, chosen: Collection[FormatPartition]) -> None:
        """Raise NotSupportedError if a directory of these partitions is also that of a partition that is not chosen."""
        of_chosen = {each.location: each for each in chosen}
        counts = Counter(each.location for each in chosen)
        for location, partition in of_chosen.items():
            if counts[location] < self._places[location]:
                shown = ", ".join(f"{name}={value}" for name, value in partition.spec.items())
                raise NotSupportedError(
                    f"The partition {shown} can't be changed alone: another partition of the table has its directory, "
                    f"{location}, too. Give one of them a directory of its own, or drop one by Hive."
                )

    def to_write(self) -> dict[bytes, FormatPartition]:
        """Return the partition of each row to which new files of it belong.

        Of several directories with equal values that is one of the table's own format, if possible under the name that
        a new one would have.
        """
        found: dict[bytes, FormatPartition] = {}
        for each in self.partitions():
            best = found.get(each.row)
            if best is None or self._rank(each) < self._rank(best):
                found[each.row] = each
        return found

    def _rank(self, partition: FormatPartition) -> tuple[bool, bool]:
        return partition.definition is not None, self.paths.directory_spec(partition.row) != partition.spec

    def chosen(self, given: Partitions | None) -> list[FormatPartition]:
        """Return the partitions that a caller names. Raises InvalidInputError and FilterError."""
        fields = self._definition.schema.partition_fields
        choice = partition_choice(given, self._definition.schema.fields)
        chooses = partition_filter(choice, fields, default_name=self.paths.default_name)
        every = self.partitions()
        if not self._keys:
            return every
        kept = chooses.select([each.row for each in every])
        return [each for each in every if each.row in kept]

    def in_choice(self, given: Partitions | None, rows: Iterable[bytes]) -> frozenset[bytes]:
        """Return those of the rows of partitions, which need not exist, that a caller names."""
        choice = partition_choice(given, self._definition.schema.fields)
        default = self.paths.default_name
        return partition_filter(choice, self._definition.schema.partition_fields, default_name=default).select(
            list(rows)
        )

    def new_partition(self, row: bytes) -> FormatPartition:
        """Return the partition of a row, in the directory that it has or would have.

        Raises InvalidInputError for a value that the name of a directory does not hold.
        """
        spec = self.paths.directory_spec(row)
        names = [
            escape_path(value) if self.only_values else f"{escape_path(k)}={escape_path(value)}"
            for k, value in spec.items()
        ]
        for key, value, name in zip(self._keys, spec.values(), names, strict=True):
            hidden = name.startswith(HIDDEN) and value != self.paths.default_name
            if hidden or name in (".", ".."):
                raise InvalidInputError(
                    f"The partition column {key!r} can't have the value {value!r}: the directory {name!r} would be "
                    "hidden."
                )
        if self.paths.parse_partition_spec(spec) != row:
            values = decode_row(row, self._definition.schema.partition_types)
            raise InvalidInputError(
                f"The partition columns {', '.join(self._keys)} can't have the values "
                f"{', '.join(map(repr, values))}: the directory {'/'.join(names)!r} is that of other values."
            )
        return FormatPartition(row=row, spec=spec, location=f"{self.location}/{'/'.join(names)}")

    def row_of(self, spec: Mapping[str, object]) -> bytes:
        """Return the row of a complete specification; raises InvalidInputError."""
        return self.paths.parse_partition_spec(spec)

    def of(self, definition: FormatDefinition) -> "FormatDirectories":
        """Return the same directories under another definition."""
        return FormatDirectories(self.location, self.file_io, definition, self.register, discovers=self._discovers)

    @property
    def only_values(self) -> bool:
        """Whether directories are named by their values alone."""
        return self._definition.only_values

    def _partition(
        self, values: Sequence[str], location: str, definition: FormatDefinition | None = None
    ) -> FormatPartition:
        spec = dict(zip(self._keys, values, strict=True))
        try:
            row = self.paths.parse_partition_spec(spec)
        except InvalidInputError as error:
            raise CorruptFileError(
                f"The directory {location} is no partition of the table: {error} Move it away, or rename it."
            ) from error
        return FormatPartition(row=row, spec=spec, location=location.rstrip("/"), definition=definition)

    def _discovered(self, directory: str, values: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
        if len(values) == len(self._keys):
            yield values, directory
            return
        for entry in sorted(self.file_io.list(directory), key=lambda each: each.name):
            value = self._value(entry, self._keys[len(values)])
            if value is not None:
                yield from self._discovered(f"{directory}/{entry.name}", (*values, value))

    def _value(self, entry: FileStatus, key: str) -> str | None:
        """Return the value of a partition column that a directory names; None for other entries."""
        if not entry.is_directory:
            return None
        if self.only_values:
            value = unescape_path(entry.name)
            return None if entry.name.startswith(HIDDEN) and value != self.paths.default_name else value
        name, equals, value = entry.name.partition("=")
        found = unescape_path(name)
        if self._definition.any_case:
            found, key = found.lower(), key.lower()
        return unescape_path(value) if equals and value and found == key and not name.startswith(HIDDEN) else None

    # -- files ---------------------------------------------------------------------------------------------------------

    def files(self, partition: FormatPartition) -> list[FileStatus]:
        """Return the data files of a partition, by their paths.

        Directories inside of its own belong to it, apart from those of other partitions.
        """
        return sorted(self._files(partition.location), key=lambda each: each.path)

    def remove_empty(self, partition: FormatPartition) -> None:
        """Remove the directory of a partition, and those above it in the table, as far as they are empty."""
        directory = partition.location
        while self.holds(directory):
            try:
                self.file_io.delete(directory)
            except StorageAccessError:
                # Other files are in it: those of other jobs, or of other partitions.
                return
            directory = directory.rpartition("/")[0]

    def holds(self, directory: str) -> bool:
        """Return whether a directory is below that of the table."""
        return directory.startswith(f"{self.location.rstrip('/')}/")

    @property
    def staged(self) -> str:
        """The directory of files of the table that are not complete."""
        return f"{self.location}/{STAGING}"

    def staging(self, partition: FormatPartition) -> str:
        """Return the directory of files that are not complete, in the file system of the partition."""
        return self.staged if self.holds(partition.location) else f"{partition.location}/{STAGING}"

    def _files(self, directory: str) -> Iterator[FileStatus]:
        for entry in self.file_io.list(directory):
            if entry.name.startswith(HIDDEN):
                continue
            if entry.is_directory:
                inner = f"{directory}/{entry.name}"
                if inner not in self._places:
                    yield from self._files(inner)
            else:
                yield entry
