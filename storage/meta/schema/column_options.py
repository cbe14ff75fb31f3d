"""Options that name columns, in their values (`sequence.field`), their keys (`fields.a.aggregate-function`) or both
(`fields.g,h.sequence-group`): which they are, and what becomes of them when a column is renamed. Pure.

Source: paimon-core `schema.SchemaManager.applyRenameColumnsToOptions`, which leaves the options of file indexes,
expiry and removed groups behind; interbed renames in those, too.
"""

from collections.abc import Iterator, Mapping

_FIELDS = "fields."
_GROUP = ".sequence-group"
_INDEX = "file-index."
_INDEX_COLUMNS = ".columns"
_LISTS = frozenset(
    {
        "bucket-key",
        "changelog-producer.row-deduplicate-ignore-fields",
        "clustering.columns",
        "partial-update.remove-record-on-sequence-group",
        "record-level.time-field",
        "rowkind.field",
        "self-optimizing.order-by",
        "sequence.field",
        "upsert-key",
    }
)
"""Options whose value is a list of columns."""


def renamed(options: Mapping[str, str], name: str, new_name: str) -> dict[str, str]:
    """The options after a column was renamed."""

    def in_list(names: str) -> str:
        return ",".join(_put(n, name, new_name) for n in names.split(","))

    out: dict[str, str] = {}
    for key, value in options.items():
        if key in _LISTS:
            out[key] = in_list(value)
        elif key.startswith(_FIELDS):
            columns, dot, option = key[len(_FIELDS) :].partition(".")
            about_columns = f".{option}" == _GROUP
            out[f"{_FIELDS}{in_list(columns)}{dot}{option}"] = in_list(value) if about_columns else value
        elif key.startswith(_INDEX) and key.endswith(_INDEX_COLUMNS):
            out[key] = in_list(value)
        elif key.startswith(_INDEX):
            kind, *rest = key[len(_INDEX) :].split(".")
            # Other options have fewer parts than those of one column's index.
            own = [_put(rest[0], name, new_name), *rest[1:]] if len(rest) > 1 else rest
            out[_INDEX + ".".join((kind, *own))] = value
        else:
            out[key] = value
    return out


def naming(options: Mapping[str, str], name: str) -> Iterator[str]:
    """The options that name the column."""
    elsewhere = f"{name} "
    for key, value in options.items():
        if renamed({key: value}, name, elsewhere) != {key: value}:
            yield key


def _put(written: str, name: str, new_name: str) -> str:
    """The name as it is written, with blanks or with the key of a map's value behind it, after the renaming."""
    column, bracket, rest = written.partition("[")
    return f"{new_name}{bracket}{rest}" if column.strip() == name else written
