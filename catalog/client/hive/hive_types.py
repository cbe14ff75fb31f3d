"""Types of columns by their names in Hive: `array<struct<a:int,b:varchar(10)>>`."""

from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.types.data_type import DataType
from interbed.storage.base.types.parse import data_type

_PAIMON_NAMES = {
    "binary": "BYTES",
    "timestamp with local time zone": "TIMESTAMP_LTZ(6)",
    "timestamplocaltz": "TIMESTAMP_LTZ(6)",
    "timestamp": "TIMESTAMP(6)",
    "decimal": "DECIMAL(10, 0)",
}


def paimon_type(hive_name: str) -> str:
    """Return the text of Paimon's type by its name in Hive: `ROW<`a` INT>` for `struct<a:int>`."""
    text = hive_name.strip()
    name, bracket, rest = text.partition("<")
    if not bracket or not rest.endswith(">"):
        return _PAIMON_NAMES.get(text.lower(), text)
    parts = _split(rest[:-1])
    if name.lower() != "struct":
        return f"{name}<{', '.join(map(paimon_type, parts))}>"
    fields = (part.partition(":") for part in parts)
    return f"ROW<{', '.join(f'`{field.strip()}` {paimon_type(of)}' for field, _, of in fields)}>"


def type_of_hive(hive_name: str, column: str) -> DataType:
    """Return the type of a column of a metastore; raises NotSupportedError for one that Paimon lacks."""
    try:
        return data_type(paimon_type(hive_name))
    except InvalidInputError as error:
        raise NotSupportedError(f"The column {column!r} is of Hive's type {hive_name}, which is not read.") from error


def _split(text: str) -> list[str]:
    """Return the parts between the commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]
