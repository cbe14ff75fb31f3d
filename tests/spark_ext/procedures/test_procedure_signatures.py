"""Names, arguments and result columns of the procedures are those of Paimon."""

import pytest

from interbed.spark_ext.procedures.procedure import name_parts
from interbed.spark_ext.procedures.registry import PROCEDURES
from tests.spark_ext.procedures.paimon_procedures import PROCEDURES as PAIMON


@pytest.mark.parametrize("name", sorted(set(PAIMON) & set(PROCEDURES)))
def test_arguments_and_results_are_those_of_paimon(name: str) -> None:
    procedure = PROCEDURES[name]
    parameters = ", ".join(
        p.name + ("" if p.type == "string" else f" {p.type}") + ("*" if p.required else "")
        for p in procedure.parameters
    )
    columns = ", ".join(c.name + ("" if c.type == "string" else f" {c.type}") for c in procedure.columns)
    assert (parameters, columns) == PAIMON[name]


def test_all_procedures_of_paimon_exist() -> None:
    assert set(PAIMON) - set(PROCEDURES) == set()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("t", ["t"]),
        ("db.t", ["db", "t"]),
        ("`d.b`.`t```", ["d.b", "t`"]),
        ("lake.db.t$branch_b", ["lake", "db", "t$branch_b"]),
        ("", None),
        ("db.", None),
        (".t", None),
        ("`db", None),
    ],
)
def test_names_are_parsed_as_in_sql(text: str, parts: list[str] | None) -> None:
    assert name_parts(text) == parts
