"""Procedures of the statements about policies: ALTER TABLE … SET ROW FILTER, SET MASK, and SHOW POLICIES.

They are called like procedures, and are not listed. The catalog's server decides what the user may do, and which
conditions and expressions readers can apply.
"""

import json

from interbed.catalog.client.access.grants import GrantHolder
from interbed.spark_ext.procedures.procedure import (
    TABLE,
    Answer,
    Procedure,
    ProcedureCall,
    column,
    optional,
)


def _change(call: ProcedureCall) -> Answer:
    table, masked = str(call.table_name().identifier), call.given("column")
    name = call.given("policy") or ("filter" if masked is None else f"mask-{masked}")
    expression = call.arguments.get("expression")
    if expression is None:
        call.catalog.drop_policy(table, name)
        return ()
    bound = _grantees(call, "bound") or [GrantHolder(kind="role", name="public")]
    exempt = _grantees(call, "exempt")
    if masked is None:
        call.catalog.set_row_filter(table, expression, to=bound, exempt=exempt, name=name)
    else:
        call.catalog.set_column_mask(table, masked, expression, to=bound, exempt=exempt, name=name)
    return ()


def _grantees(call: ProcedureCall, name: str) -> list[GrantHolder]:
    listed: list[str] = json.loads(call.given(name) or "[]")
    return [GrantHolder.parse(each) for each in listed]


def _show(call: ProcedureCall) -> Answer:
    return [
        (
            each.name,
            each.kind,
            each.column,
            each.expression,
            ", ".join(map(str, each.to)),
            ", ".join(map(str, each.exempt)),
            each.created_by,
        )
        for each in call.catalog.list_policies(str(call.table_name().identifier))
    ]


STATEMENTS = (
    Procedure(
        name="change_policies_statement",
        description="ALTER TABLE … SET ROW FILTER and SET MASK",
        parameters=(
            TABLE,
            optional("policy"),
            optional("column"),
            optional("expression"),
            optional("bound"),
            optional("exempt"),
        ),
        call=_change,
        is_statement=True,
    ),
    Procedure(
        name="show_policies_statement",
        description="SHOW POLICIES",
        parameters=(TABLE,),
        columns=(
            column("policy"),
            column("kind"),
            column("column"),
            column("expression"),
            column("bound"),
            column("exempt"),
            column("set_by"),
        ),
        call=_show,
        is_statement=True,
    ),
)
