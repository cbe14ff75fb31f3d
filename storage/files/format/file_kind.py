"""Which format, codec and statistics the files of a level have: a pure choice from the table's options.

A level's own format, codec and mode come from `file.format.per.level`, `file.compression.per.level` and
`metadata.stats-mode.per.level`, the others' from `file.format`, `file.compression` and `metadata.stats-mode`; changelog
files have `changelog-file.format`, `.compression` and `.stats-mode`, which default to those of the level. Append tables
know no levels. Source: Paimon's KeyValueFileWriterFactory; documentation page `maintenance/configurations`.

A format limits the types of columns: Avro keeps timestamps as milliseconds or microseconds, TIME as milliseconds.
Source: Paimon's AvroSchemaConverter.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from interbed.storage.base.columnar_records import CODECS, UNCOMPRESSED
from interbed.storage.base.errors import InvalidOptionError, NotSupportedError
from interbed.storage.base.types.data_type import TIMESTAMPS, AtomicType, DataField, DataType, TypeRoot
from interbed.storage.files.format.stats import StatsMode, key_modes, stats_modes
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.options.format import FILE_FORMATS


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


_CODECS: Mapping[str, Mapping[str, str]] = {
    **CODECS,
    "avro": {"zstd": "zstandard", **{c: c for c in ("zstandard", "snappy", "deflate", "bzip2", "xz")}},
}
"""For each format what the options call a codec, and what the format's writer calls it."""
_PAGE_ROWS, _PAGE_ROWS_OF_LEVEL_0 = 20_000, 8_192
"""Rows of a page of a Parquet file. A range of keys has a stretch in each of the many files of level 0."""
_SUFFIXES = {"none": "", "gzip": "gz.", "bzip2": "bz2.", "zstd": "zst."}
"""What stands for a codec in names of files, where it is not the codec's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileKind:
    """How files are written: the codec by the name that the format's writer takes, None for no compression.

    `extension` is what names of files end with, without the dot, `page_rows` the rows of a page, where there are any.
    `value_modes` and `key_modes` say which statistics are kept of the table's columns and of the key columns.
    """

    file_format: str
    codec: str | None
    extension: str
    page_rows: int
    value_modes: tuple[StatsMode, ...]
    key_modes: tuple[StatsMode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKinds:
    """The kinds of a table's data files (`data`) and changelog files by level; level None stands for all others."""

    data: Mapping[int | None, DataFileKind]
    changelog: Mapping[int | None, DataFileKind]

    @staticmethod
    def of(options: CoreOptions, fields: Sequence[DataField], keys: Sequence[DataField]) -> "FileKinds":
        """The kinds for a table with these columns; `keys` are those of its trimmed primary key, none without one.

        Raises InvalidOptionError for an unknown format, codec or mode, naming the option, and NotSupportedError for a
        column that one of the formats can't hold.
        """
        levels: list[int | None] = [None]
        if keys:
            levels += sorted({0, *options.format_by_level, *options.compression_by_level, *options.stats_mode_by_level})
        kinds = FileKinds(
            data={level: _kind(options, fields, keys, level, changelog=False) for level in levels},
            changelog={level: _kind(options, fields, keys, level, changelog=True) for level in levels},
        )
        for file_format in sorted(kinds.formats):
            check_fields(file_format, fields)
        return kinds

    @property
    def formats(self) -> frozenset[str]:
        """All formats that new files may have."""
        return frozenset(k.file_format for k in (*self.data.values(), *self.changelog.values()))

    def at(self, level: int, *, changelog: bool = False) -> DataFileKind:
        """The kind of the files of a level."""
        kinds = self.changelog if changelog else self.data
        return kinds.get(level) or kinds[None]


def _kind(
    options: CoreOptions, fields: Sequence[DataField], keys: Sequence[DataField], level: int | None, *, changelog: bool
) -> DataFileKind:
    format_key, file_format = _choose(
        level, "file.format", options.file_format, options.format_by_level, changelog, options.changelog_format
    )
    if file_format not in FILE_FORMATS:
        known = ", ".join(FILE_FORMATS)
        raise InvalidOptionError(f"Option '{format_key}' takes one of {known}, not '{file_format}'.")
    codec_key, compression = _choose(
        level,
        "file.compression",
        options.file_compression,
        options.compression_by_level,
        changelog,
        options.changelog_compression,
    )
    own_key = {"parquet": "parquet.compression", "orc": "orc.compress", "avro": "avro.codec"}[file_format]
    if own_key in options.raw:
        # The format's own option goes before Paimon's, as in Paimon.
        codec_key, compression = own_key, options.text(own_key, "").lower()
    mode_key, mode = _choose(
        level,
        "metadata.stats-mode",
        options.stats_mode,
        options.stats_mode_by_level,
        changelog,
        options.changelog_stats_mode,
    )
    table_mode = StatsMode.parse(mode_key, mode)
    return DataFileKind(
        file_format=file_format,
        codec=_codec(codec_key, file_format, compression),
        extension=_extension(file_format, options),
        page_rows=options.parquet_page_rows or (_PAGE_ROWS_OF_LEVEL_0 if level == 0 else _PAGE_ROWS),
        value_modes=stats_modes(fields, options, table_mode, file_format=file_format, keys=keys),
        key_modes=key_modes(keys, options, table_mode, file_format=file_format),
    )


def _extension(file_format: str, options: CoreOptions) -> str:
    if not options.suffix_includes_compression:
        return file_format
    # Paimon names the table's codec, whatever that of the level is.
    return _SUFFIXES.get(options.file_compression, f"{options.file_compression}.") + file_format


def _choose(
    level: int | None, key: str, common: str, by_level: Mapping[int, str], changelog: bool, own: str | None
) -> tuple[str, str]:
    """The option that decides, and its value."""
    if changelog and own is not None:
        name = "changelog-file." + key.removeprefix("file.").removeprefix("metadata.")
        return name, own
    if level is not None and level in by_level:
        return f"{key}.per.level", by_level[level]
    return key, common


def _codec(key: str, file_format: str, compression: str) -> str | None:
    if compression in UNCOMPRESSED:
        return None
    codecs = _CODECS[file_format]
    if compression not in codecs:
        known = ", ".join(("none", *codecs))
        raise InvalidOptionError(
            f"Option '{key}' takes one of {known} for files of the format {file_format}, not '{compression}'."
        )
    return codecs[compression]
