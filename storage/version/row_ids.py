"""Check of the row ids of a snapshot: no two rows may have one id, and the ids of later rows must be new. Pure.

Row ids in the metadata of files are compared as ranges. Those that a file stores are known by their bounds.
"""

from collections.abc import Callable, Iterable

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.base.row.binary_row import decode_row
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.schema.system_fields import readable_by_name
from interbed.storage.meta.schema.table_schema import ROW_ID, TableSchema


def row_id_problems(
    files: Iterable[DataFileMeta], next_row_id: int | None, schema_of: Callable[[int], TableSchema]
) -> list[str]:
    """Return what is wrong with the row ids of the live files of a snapshot; `schema_of` has the schema of an id."""
    problems: list[str] = []
    ranges: list[tuple[int, int, str]] = []
    following = next_row_id or 0
    for file in files:
        greatest = None
        if file.stores_row_ids:
            greatest = _greatest_stored(file, schema_of(file.schema_id))
        elif file.first_row_id is None:
            problems.append(f"the rows of {file.file_name} have no ids")
        else:
            greatest = file.first_row_id + file.row_count - 1
            ranges.append((file.first_row_id, greatest, file.file_name))
        if greatest is not None and greatest >= following:
            problems.append(
                f"{file.file_name} has the row id {greatest}, and rows that are yet to come begin with {following}"
            )
    last: tuple[int, int, str] | None = None
    for first, greatest, name in sorted(ranges):
        if last is not None and first <= last[1]:
            problems.append(f"{last[2]} and {name} have the same row ids, from {first} on")
        if last is None or greatest > last[1]:
            last = (first, greatest, name)
    return problems


def _greatest_stored(file: DataFileMeta, schema: TableSchema) -> int | None:
    """Return the greatest stored id by the file's statistics; None without them."""
    names = file.stats_names(schema.names)
    known = readable_by_name(schema)
    if ROW_ID not in names or not all(name in known for name in names):
        return None
    try:
        row = decode_row(file.value_stats.max_values, [known[name].type for name in names])
    except CorruptFileError:
        # Files without statistics have an empty row.
        return None
    found = row[names.index(ROW_ID)]
    return found if isinstance(found, int) else None
