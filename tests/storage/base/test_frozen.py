"""Assignment to an attribute of an immutable object is refused and named, also for attributes that do not exist."""

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed import load_catalog


def public_classes() -> list[type]:
    found = (getattr(interbed, name) for name in interbed.__all__)
    return [c for c in found if isinstance(c, type) and dataclasses.is_dataclass(c)]


def check(frozen: Any) -> None:
    names = [f.name for f in dataclasses.fields(frozen)]
    for name in (*names, "no_such_field"):
        with pytest.raises(AttributeError, match=f"assign to.*'{name}'"):
            setattr(frozen, name, 1)
        with pytest.raises(AttributeError, match=f"delete.*'{name}'"):
            delattr(frozen, name)


@pytest.mark.parametrize("cls", [c for c in public_classes() if c.__dataclass_params__.frozen])  # type: ignore[attr-defined]  # For data classes.
def test_a_public_frozen_object_names_the_attribute(cls: type) -> None:
    check(object.__new__(cls))


def test_a_frozen_object_returned_by_a_table_names_the_attribute(tmp_path: Path) -> None:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("d")
    table = catalog.create_table("d.t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    plan = table.new_scan().plan()
    split = plan.splits[0]
    for frozen in (
        table.schema,
        table.schema.fields[0],
        table.schema.fields[0].type,
        table.options,
        table.snapshots()[0],
        table.versions.create_tag("x"),
        plan,
        plan.statistics,
        split,
        split.files[0],
        table.explain(),
    ):
        if frozen is not None:
            check(frozen)
