"""Catalogs by name and options: the configuration file, environment variables, and the default catalog."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interbed
from interbed.catalog.client.configuration import Configuration, ConfiguredOption, load_configuration
from interbed.catalog.client.options import KNOWN
from interbed.storage.base.errors import InvalidOptionError


def configured(home: Path, text: str, **variables: str) -> Configuration:
    (home / ".interbed.toml").write_text(text, encoding="utf-8")
    return load_configuration({"HOME": str(home), **variables})


def values(configuration: Configuration, name: str) -> dict[str, str]:
    return {key: setting.value for key, setting in configuration.catalogs[name].items()}


def test_a_catalog_has_the_options_of_its_section(tmp_path: Path) -> None:
    text = """
    [catalog.lake]
    warehouse = "file:/lake"
    "lock.enabled" = true
    client-pool-size = 3
    [catalog.lake.s3]
    endpoint = "http://s3"
    [catalog."other one"]
    warehouse = "file:/other"
    """
    found = configured(tmp_path, text)
    assert values(found, "lake") == {
        "warehouse": "file:/lake",
        "lock.enabled": "true",
        "client-pool-size": "3",
        "s3.endpoint": "http://s3",
    }
    assert found.resolved("other one", {}) == ("other one", {"warehouse": "file:/other"})


def test_variables_override_the_file_and_options_override_both(tmp_path: Path) -> None:
    found = configured(
        tmp_path,
        '[catalog.My_Lake]\nwarehouse = "file:/a"\nuri = "thrift://a"',
        INTERBED_CATALOG__MY_LAKE__WAREHOUSE="file:/b",
        INTERBED_CATALOG__MY_LAKE__LOCK__ENABLED="true",
        INTERBED_CATALOG__MY_LAKE__HIVE_CONF_DIR="/etc/hive",
        INTERBED_CATALOG__NEW_ONE__WAREHOUSE="file:/c",
    )
    assert values(found, "My_Lake") == {
        "warehouse": "file:/b",
        "uri": "thrift://a",
        "lock.enabled": "true",
        "hive-conf-dir": "/etc/hive",
    }
    assert found.catalogs["My_Lake"]["warehouse"].source == "INTERBED_CATALOG__MY_LAKE__WAREHOUSE"
    assert found.resolved("my-lake", {"uri": "thrift://d"})[1]["uri"] == "thrift://d"
    assert found.resolved("new-one", {}) == ("new-one", {"warehouse": "file:/c"})


@pytest.mark.parametrize(
    ("text", "variables", "name"),
    [
        ('[catalog.a]\nwarehouse = "x"', {}, "a"),
        ('[catalog.a]\nwarehouse = "x"\n[catalog.default]\nwarehouse = "y"', {}, "default"),
        ('default-catalog = "b"\n[catalog.a]\nwarehouse = "x"\n[catalog.b]\nwarehouse = "y"', {}, "b"),
        (
            'default-catalog = "b"\n[catalog.a]\nwarehouse = "x"\n[catalog.b]\nwarehouse = "y"',
            {"INTERBED_DEFAULT_CATALOG": "a"},
            "a",
        ),
    ],
)
def test_the_default_catalog_is_named_default_or_is_the_only_one(
    tmp_path: Path, text: str, variables: dict[str, str], name: str
) -> None:
    assert configured(tmp_path, text, **variables).resolved(None, {})[0] == name


def test_options_that_locate_a_catalog_need_no_configuration(tmp_path: Path) -> None:
    found = configured(tmp_path, '[catalog.a]\nmetastore = "hive"\nuri = "thrift://a"')
    assert found.resolved(None, {"warehouse": "file:/b"}) == ("default", {"warehouse": "file:/b"})
    assert found.resolved("b", {"warehouse": "file:/b"}) == ("b", {"warehouse": "file:/b"})
    # Options that do not locate a catalog are added to the default one.
    assert found.resolved(None, {"lock.enabled": "false"})[1].keys() == {"metastore", "uri", "lock.enabled"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[catalog.lake]\nwarehouse = "file:/lake', r"\.interbed\.toml, line 2: "),
        ("[catalog.lake]\nwarehouse = file:/lake\n", r"\.interbed\.toml, line 2: "),
        ("[catalog.lake\n", r"\.interbed\.toml, line 1: "),
        ("\n\n'", r"\.interbed\.toml, line 3: "),
        ("catalogs = 1", r"\.interbed\.toml: unknown key 'catalogs'.*Did you mean 'catalog'"),
        ("catalog = 1", r"\.interbed\.toml: 'catalog' holds tables"),
        ("catalog.lake = 1", r"\.interbed\.toml: 'catalog' holds tables"),
        ("default-catalog = 1", r"\.interbed\.toml: 'default-catalog' is the name"),
        ("catalog.lake.warehouse = [1]", r"\.interbed\.toml: 'warehouse' of \[catalog\.lake\] is neither"),
    ],
)
def test_a_malformed_file_is_reported_on_one_line_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message) as caught:
        configured(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_not_utf_8_are_reported_by_line(tmp_path: Path) -> None:
    (tmp_path / ".interbed.toml").write_bytes(b"\n# \xff\n")
    with pytest.raises(InvalidOptionError, match=r"line 2: not UTF-8"):
        load_configuration({"HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lkae", r"No catalog 'lkae' is configured in .*configured: lake, prod\. Did you mean 'lake'\?"),
        (None, r"Several catalogs are configured: lake, prod\. Name one"),
        ("prod", r"'prod' has the unknown option 'warehous' in .*\.interbed\.toml\. Did you mean 'warehouse'\?"),
    ],
)
def test_a_wrong_name_or_option_is_refused_by_name(tmp_path: Path, name: str | None, message: str) -> None:
    text = '[catalog.lake]\nwarehouse = "x"\n[catalog.prod]\nwarehous = "y"'
    with pytest.raises(InvalidOptionError, match=message):
        configured(tmp_path, text).resolved(name, {})


def test_invalid_and_unknown_variables_are_refused_by_name(tmp_path: Path) -> None:
    for variable in ("INTERBED_CATALOG__LAKE", "INTERBED_CATALOG__LAKE__", "INTERBED_CATALOG____X"):
        with pytest.raises(InvalidOptionError, match=f"^{variable} names no option"):
            configured(tmp_path, "", **{variable: "secret"})
    found = configured(tmp_path, "", INTERBED_CATALOG__LAKE__WAREHOUS="x")
    with pytest.raises(InvalidOptionError, match="'warehous' in INTERBED_CATALOG__LAKE__WAREHOUS"):
        found.resolved("lake", {})
    two = configured(tmp_path, "catalog.a_b.warehouse = 'x'\ncatalog.A-B.warehouse = 'y'")
    assert two.resolved("a_b", {})[1] == {"warehouse": "x"}
    with pytest.raises(InvalidOptionError, match="A-B, a_b; rename one"):
        two.resolved("a-b", {})


def test_the_configuration_file_can_be_elsewhere(tmp_path: Path) -> None:
    other = tmp_path / "xdg" / "interbed" / "config.toml"
    other.parent.mkdir(parents=True)
    other.write_text('[catalog.xdg]\nwarehouse = "x"')
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    assert list(load_configuration(home).catalogs) == ["xdg"]
    assert list(configured(tmp_path, '[catalog.home]\nwarehouse = "x"', **home).catalogs) == ["home"]
    assert list(load_configuration({**home, "INTERBED_CONFIG": str(other)}).catalogs) == ["xdg"]
    with pytest.raises(InvalidOptionError, match=r"no file .*/none\.toml, which INTERBED_CONFIG names"):
        load_configuration({**home, "INTERBED_CONFIG": str(tmp_path / "none.toml")})
    with pytest.raises(InvalidOptionError, match=f"Can't read the configuration {tmp_path}"):
        load_configuration({**home, "INTERBED_CONFIG": str(tmp_path)})
    assert not load_configuration({"HOME": str(tmp_path / "nowhere")}).catalogs


def test_a_secret_is_in_no_message_and_no_repr(tmp_path: Path) -> None:
    found = configured(tmp_path, '[catalog.lake]\nwarehous = "hunter2"\n"s3.secret-key" = "hunter2"')
    assert "hunter2" not in repr(found)
    with pytest.raises(InvalidOptionError) as caught:
        found.resolved("lake", {})
    assert "hunter2" not in str(caught.value)
    with pytest.raises(InvalidOptionError) as caught:
        configured(tmp_path, '[catalog.lake]\n"s3.secret-key" = "hunter2')
    assert "hunter2" not in str(caught.value)


def test_the_options_of_a_catalog_and_of_a_table_show_no_secret(tmp_path: Path) -> None:
    secrets = {"s3.secret-key": "hunter2", "optimizer.db": "postgresql://me:hunter2@host/db"}
    with interbed.load_catalog(warehouse=tmp_path, **secrets) as catalog:
        catalog.create_database("shop")
        table = catalog.create_table("shop.t", pa.schema([("id", pa.int64())])).copy({"s3.secret-key": "hunter2"})
        for shown in (repr(catalog), repr(catalog.options), repr(table.options), repr(table.store)):
            assert "hunter2" not in shown
        assert "'s3.secret-key': '******'" in repr(catalog.options)
        assert f"'warehouse': '{tmp_path}'" in repr(catalog.options)


def test_load_catalog_opens_a_configured_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'[catalog.lake]\nwarehouse = "file:{tmp_path}/lake"')
    monkeypatch.setenv("INTERBED_CONFIG", str(file))
    with interbed.load_catalog("lake") as catalog:
        catalog.create_database("shop")
        catalog.create_table("shop.t", pa.schema([("id", pa.int64())]))
    assert interbed.load_catalog().list_tables("shop") == ["t"]
    other = interbed.load_catalog("lake", warehouse=tmp_path / "other")
    assert (other.name, other.list_databases()) == ("lake", [])
    assert not (tmp_path / "other").exists()
    with pytest.raises(InvalidOptionError, match="No catalog 'lkae'"):
        interbed.load_catalog("lkae")


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=8)
OPTIONS = st.dictionaries(st.sampled_from(sorted(KNOWN)), st.text(max_size=20), max_size=4)


@given(st.dictionaries(NAMES, OPTIONS, max_size=4))
def test_any_text_in_a_file_is_read_unchanged(
    tmp_path_factory: pytest.TempPathFactory, catalogs: dict[str, dict[str, str]]
) -> None:
    # A JSON string is a TOML string, except for DEL and for surrogate pairs.
    def quoted(text: str) -> str:
        return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

    lines = []
    for name, options in catalogs.items():
        lines.append(f"[catalog.{quoted(name)}]")
        lines += [f"{quoted(key)} = {quoted(value)}" for key, value in options.items()]
    found = configured(tmp_path_factory.mktemp("home"), "\n".join(lines))
    assert {name: values(found, name) for name in found.catalogs} == catalogs


@given(
    st.from_regex(r"[A-Z]+(_[A-Z]+)*", fullmatch=True),
    st.dictionaries(st.sampled_from(sorted(KNOWN)), st.text(st.characters(exclude_characters="\0")), min_size=1),
)
def test_any_text_in_variables_is_read_unchanged(name: str, options: dict[str, str]) -> None:
    variables = {
        f"INTERBED_CATALOG__{name}__{key.replace('-', '_').replace('.', '__').upper()}": value
        for key, value in options.items()
    }
    found = load_configuration({"HOME": "/nowhere", **variables})
    assert found.resolved(name, {}) == (name.lower().replace("_", "-"), options)
    assert found.catalogs[name.lower().replace("_", "-")] == {
        key: ConfiguredOption(value, variable)
        for (key, value), variable in zip(options.items(), variables, strict=True)
    }


def test_default_options_of_the_catalog_apply_to_new_tables(tmp_path: Path) -> None:
    options = {"warehouse": str(tmp_path), "table-default.file.compression": "lz4"}
    with interbed.CatalogFactory.create(options) as catalog:
        catalog.create_database("d")
        schema = pa.schema((pa.field("id", pa.int64()), pa.field("name", pa.string())))
        assert catalog.create_table("d.t", schema).options.file_compression == "lz4"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "warehouse"),
        ({"warehouse": "w", "metastore": "magic"}, "metastore"),
        ({"warehouse": "w", "metastore": "hive"}, "uri"),
        ({"warehouse": "w", "warehous": "typo"}, "warehous"),
        ({"warehouse": "w", "lock.enabled": "true"}, "lock.enabled"),
        ({"warehouse": "w", "metastore": "hive", "uri": "http://x:1"}, "thrift://host"),
    ],
)
def test_wrong_options_of_a_catalog_are_reported(tmp_path: Path, options: dict[str, object], message: str) -> None:
    if "warehouse" in options:
        options = options | {"warehouse": str(tmp_path / "w")}
    with pytest.raises(InvalidOptionError, match=message):
        interbed.CatalogFactory.create(options)
