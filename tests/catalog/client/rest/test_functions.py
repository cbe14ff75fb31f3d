"""Functions of a catalog: by REST with Java's reference server, and refused by name in other catalogs."""

from pathlib import Path

import pytest

import interbed
from interbed.catalog.client.errors import DatabaseNotFoundError, FunctionExistsError, FunctionNotFoundError
from interbed.catalog.client.functions import (
    CatalogFunction,
    DefinitionKind,
    FunctionChange,
    FunctionDefinition,
    FunctionName,
)
from interbed.catalog.client.rest.catalog import RestCatalog
from interbed.storage.base.errors import CorruptFileError, InvalidInputError, NotSupportedError
from interbed.storage.base.types.data_type import AtomicType, DataField, TypeRoot

DOUBLE = AtomicType(TypeRoot.DOUBLE)
SQL = FunctionDefinition.of_sql("x * y")
AREA = CatalogFunction(
    definitions={
        "spark": SQL,
        "flink": FunctionDefinition(kind=DefinitionKind.LAMBDA, definition="(x, y) -> x * y", language="JAVA"),
        "hive": FunctionDefinition(
            kind=DefinitionKind.FILE,
            file_resources=(("JAR", "/a/b.jar"),),
            language="JAVA",
            class_name="org.example.Area",
            function_name="eval",
        ),
    },
    input_params=(DataField(0, "x", DOUBLE), DataField(1, "y", DOUBLE)),
    return_params=(DataField(0, "area", DOUBLE),),
    comment="x times y",
    options={"owner-team": "geo"},
)


def test_a_function_is_created_read_changed_and_dropped(catalog: RestCatalog) -> None:
    catalog.create_function("shop.area", AREA)
    assert catalog.list_functions("shop") == ["area"]
    assert catalog.get_function("shop.area") == AREA
    with pytest.raises(FunctionExistsError, match=r"function 'shop\.area' in .* already"):
        catalog.create_function("shop.area", AREA)
    catalog.create_function("shop.area", AREA, ignore_if_exists=True)
    changes = [
        FunctionChange.set_option("k", "v"),
        FunctionChange.remove_option("owner-team"),
        FunctionChange.update_comment("new"),
        FunctionChange.add_definition("duckdb", SQL),
        FunctionChange.drop_definition("hive"),
    ]
    catalog.alter_function("shop.area", changes)
    found = catalog.get_function("shop.area")
    assert (found.comment, found.options) == ("new", {"k": "v"})
    assert found.definitions == {"spark": SQL, "flink": AREA.definitions["flink"], "duckdb": SQL}
    with pytest.raises(InvalidInputError):
        catalog.alter_function("shop.area", FunctionChange.add_definition("spark", SQL))
    catalog.drop_function("shop.area")
    assert catalog.list_functions("shop") == []


def test_a_missing_function_is_named(catalog: RestCatalog) -> None:
    for call in (
        lambda: catalog.get_function("shop.f"),
        lambda: catalog.drop_function("shop.f"),
        lambda: catalog.alter_function("shop.f", FunctionChange.update_comment("x")),
    ):
        with pytest.raises(FunctionNotFoundError, match=r"no function 'shop\.f' in"):
            call()
    catalog.drop_function("shop.f", ignore_if_not_exists=True)
    catalog.alter_function("shop.f", FunctionChange.update_comment("x"), ignore_if_not_exists=True)


def test_a_file_system_catalog_has_no_functions(tmp_path: Path) -> None:
    with interbed.load_catalog("lake", warehouse=str(tmp_path)) as catalog:
        catalog.create_database("d")
        assert catalog.list_functions("d") == []
        with pytest.raises(DatabaseNotFoundError):
            catalog.list_functions("e")
        with pytest.raises(FunctionNotFoundError):
            catalog.get_function("d.f")
        with pytest.raises(NotSupportedError, match="file-system catalog has no functions"):
            catalog.create_function("d.f", AREA)
        catalog.drop_function("d.f", ignore_if_not_exists=True)


@pytest.mark.parametrize("name", ["f", "d.", "d.1-2", "d.a/b", "d.a b", "d.ü", "../d.f"])
def test_a_name_that_no_function_has_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError):
        FunctionName.of(name)
    assert str(FunctionName.of("d.area.of-box")) == "d.area.of-box"


def test_an_answer_that_is_no_function_is_refused() -> None:
    for value in ({"definitions": {"a": {"type": "poem"}}}, {"definitions": [1]}, {"inputParams": [{"name": None}]}):
        with pytest.raises(CorruptFileError, match="The answer has no valid function"):
            CatalogFunction.from_json(value, source="The answer")
