"""The choice of file format, codec and statistics by level."""

import pytest

from interbed.storage.base.errors import InvalidOptionError, NotSupportedError
from interbed.storage.base.types.data_type import DataField, parse_atomic
from interbed.storage.files.format.layout import DataFileKind, FileKinds
from interbed.storage.files.format.stats import KEY_MODE, StatsMode
from interbed.storage.meta.options.core import CoreOptions

KEY = DataField(id=0, name="k", type=parse_atomic("INT NOT NULL"))
FIELDS = (KEY, DataField(id=1, name="v", type=parse_atomic("STRING")))
NONE, COUNTS = StatsMode(False, False), StatsMode(True, False)
CUT = StatsMode(True, True, 16)


def kinds(options: dict[str, str], *, keyed: bool = True) -> FileKinds:
    return FileKinds.of(CoreOptions(options), FIELDS, (KEY,) if keyed else ())


def brief(kind: DataFileKind) -> tuple[str, str | None, StatsMode]:
    return kind.file_format, kind.codec, kind.value_modes[1]


def test_without_options_all_files_are_parquet_with_zstd() -> None:
    found = kinds({})
    assert {brief(found.at(level, changelog=log)) for level in range(6) for log in (False, True)} == {
        ("parquet", "zstd", CUT)
    }
    assert found.at(3).key_modes == (KEY_MODE,)


def test_a_level_has_its_own_settings_and_otherwise_those_of_the_table() -> None:
    found = kinds(
        {
            "file.format": "ORC",
            "file.format.per.level": "0:avro, 5:parquet",
            "file.compression": "zlib",
            "file.compression.per.level": "0:zstd,5:gzip",
            "metadata.stats-mode.per.level": "0:none",
        }
    )
    assert [brief(found.at(level)) for level in (0, 1, 5)] == [
        ("avro", "zstandard", NONE),
        ("orc", "zlib", CUT),
        ("parquet", "gzip", CUT),
    ]
    assert found.at(0).key_modes == (NONE,)
    assert brief(found.at(0, changelog=True)) == ("avro", "zstandard", NONE)


def test_changelog_files_may_differ_from_data_files() -> None:
    found = kinds(
        {
            "changelog-file.format": "avro",
            "changelog-file.compression": "deflate",
            "changelog-file.stats-mode": "counts",
            "file.format.per.level": "0:orc",
        }
    )
    assert brief(found.at(0)) == ("orc", "zstd", CUT)
    assert brief(found.at(0, changelog=True)) == ("avro", "deflate", COUNTS)


def test_settings_of_levels_have_no_effect_on_append_tables() -> None:
    found = kinds({"file.format.per.level": "0:avro"}, keyed=False)
    assert brief(found.at(0)) == ("parquet", "zstd", CUT)


@pytest.mark.parametrize(
    ("options", "codec"),
    [
        ({"file.compression": "none"}, None),
        ({"file.format": "orc", "file.compression": "UNCOMPRESSED"}, None),
        ({"parquet.compression": "snappy"}, "snappy"),
        ({"file.format": "orc", "orc.compress": "SNAPPY"}, "snappy"),
        ({"file.format": "avro", "avro.codec": "bzip2", "orc.compress": "lz4"}, "bzip2"),
    ],
)
def test_an_option_of_the_format_takes_precedence_over_file_compression(
    options: dict[str, str], codec: str | None
) -> None:
    assert kinds(options).at(0).codec == codec


@pytest.mark.parametrize(
    ("options", "endings"),
    [
        ({}, ["parquet", "avro"]),
        ({"file.suffix.include.compression": "true"}, ["zst.parquet", "zst.avro"]),
        ({"file.suffix.include.compression": "true", "file.compression": "none"}, ["parquet", "avro"]),
        ({"file.suffix.include.compression": "true", "file.compression": "snappy"}, ["snappy.parquet", "snappy.avro"]),
    ],
)
def test_file_extensions_may_include_the_codec(options: dict[str, str], endings: list[str]) -> None:
    found = kinds({"file.format.per.level": "1:avro", **options})
    assert [found.at(0).extension, found.at(1).extension] == endings


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"file.format.per.level": "2:csv"}, r"file\.format\.per\.level.*parquet, orc, avro.*csv"),
        ({"file.format.per.level": "orc"}, r"file\.format\.per\.level.*pairs"),
        ({"changelog-file.format": "json"}, r"changelog-file\.format.*json"),
        ({"file.format": "orc", "file.compression": "gzip"}, r"file\.compression.*orc.*gzip"),
        ({"file.compression.per.level": "1:xz"}, r"file\.compression\.per\.level.*parquet.*xz"),
        ({"changelog-file.compression": "lzo"}, r"changelog-file\.compression.*lzo"),
        ({"metadata.stats-mode.per.level": "0:some"}, r"metadata\.stats-mode\.per\.level.*some"),
        ({"changelog-file.stats-mode": "truncate(0)"}, r"changelog-file\.stats-mode.*truncate\(0\)"),
    ],
)
def test_the_error_names_a_value_that_an_option_does_not_accept(options: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidOptionError, match=named):
        kinds(options)


def test_columns_unsupported_by_avro_are_refused_whichever_level_is_avro() -> None:
    fine = DataField(id=2, name="t", type=parse_atomic("TIMESTAMP(9)"))
    options = CoreOptions({"file.format.per.level": "3:avro"})
    with pytest.raises(NotSupportedError, match="'t'"):
        FileKinds.of(options, (KEY, fine), (KEY,))
