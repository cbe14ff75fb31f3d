"""What the formats of data files can't hold.

Avro keeps timestamps as milliseconds or microseconds, TIME as milliseconds. Source: Paimon's AvroSchemaConverter.
"""

from collections.abc import Iterator, Sequence

from interbed.storage.base.errors import NotSupportedError
from interbed.storage.base.types.data_type import TIMESTAMPS, AtomicType, DataField, DataType, TypeRoot


def check_fields(file_format: str, fields: Sequence[DataField]) -> None:
    """Raise NotSupportedError naming the first column that files of the format can't hold."""
    if file_format != "avro":
        return
    for field in fields:
        for part in _parts(field.type):
            digits = part.precision or 0
            if (part.root in TIMESTAMPS and digits > 6) or (part.root is TypeRoot.TIME and digits > 3):
                most = 6 if part.root in TIMESTAMPS else 3
                raise NotSupportedError(
                    f"Avro files can't hold the column {field.name!r}: {part.root} has at most {most} fractional "
                    f"digits there, not {digits}. Set 'file.format' to 'parquet' or 'orc', or declare fewer digits."
                )


def _parts(data_type: DataType) -> Iterator[AtomicType]:
    if isinstance(data_type, AtomicType):
        yield data_type
    for child in data_type.children():
        yield from _parts(child)
