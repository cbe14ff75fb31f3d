"""Procedures of statements that Spark does not support: CREATE TABLE … LIKE, DROP PARTITION of several, and access.

The statements about access are GRANT, REVOKE, SHOW GRANTS, CREATE ROLE, DROP ROLE, SHOW ROLES, and those of the
policies of tables, ALTER TABLE … SET ROW FILTER, SET MASK, and SHOW POLICIES. The catalog's server decides what the
user may do, and which conditions and expressions readers can apply.

The procedures are called like others, and are not listed.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from interbed.catalog.client.grants import GrantHolder, GrantObject
from interbed.catalog.client.partition import partitions_of, partitions_of_files
from interbed.spark_ext.handle.format_tables import FILE_FORMAT, PROVIDER, PROVIDERS
from interbed.spark_ext.procedures.procedure import (
    TABLE,
    Answer,
    ArgumentType,
    Procedure,
    ProcedureCall,
    column,
    name_parts,
    optional,
    required,
)
from interbed.spark_ext.values.predicates import agrees, partition_forms
from interbed.storage.base.arrow_values import cast_exactly
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.row.binary_row import decode_row
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import DataField
from interbed.storage.meta.options.core import PATH
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.table.format_table.format_table import FormatTable
from interbed.storage.table.table import Table

_BRANCH = "branch"


def _create_table_like(call: ProcedureCall) -> Answer:
    name = call.table_name()
    source = call.table("source")
    properties: dict[str, str] = json.loads(call.needed("properties"))
    provider = properties.pop(PROVIDER, PROVIDERS[0])
    if provider.lower() not in PROVIDERS:
        raise NotSupportedError(
            f"A table like '{source.name}' is of the same format, not of '{provider}'; '{FILE_FORMAT}' among the "
            "TBLPROPERTIES says how its files are written."
        )
    # The new table has no branches; the option of a table of another name would mislead Java's readers.
    own = {key: value for key, value in source.schema.options.items() if key not in (PATH, _BRANCH)}
    schema = Schema(
        fields=source.schema.fields,
        partition_keys=source.schema.partition_keys,
        primary_keys=source.schema.primary_keys,
        options={**own, **properties},
        comment=source.schema.comment,
    )
    call.catalog.create_table(name.of_table, schema, ignore_if_exists=call.given("if_not_exists") == "true")
    return ()


def _drop_partitions(call: ProcedureCall) -> Answer:
    table: Table | FormatTable = call.table()
    wanted: list[Mapping[str, str | None]] = json.loads(call.needed("specs"))
    for spec in wanted:
        unknown = [column for column in spec if column not in table.partition_keys]
        if unknown:
            raise InvalidInputError(
                f"The table '{table.name}' has no partition column '{unknown[0]}'; it has "
                f"({', '.join(table.partition_keys)})."
            )
    fields = table.schema.partition_fields
    specs = [partition_forms(_typed(table.name, spec, fields), fields) for spec in wanted]
    present = [decode_row(row, table.schema.partition_types) for row in _present_partitions(table)]
    for forms, text in zip(specs, wanted, strict=True):
        is_present = any(agrees(form, values, fields) for values in present for form in forms)
        if call.given("if_exists") != "true" and not is_present:
            named = ", ".join(f"{column}={value}" for column, value in text.items())
            raise InvalidInputError(
                f"The table '{table.name}' has no partition ({named}); write DROP IF EXISTS PARTITION to ignore that."
            )
    call.catalog.drop_partitions(call.table_name().of_table, [form for forms in specs for form in forms])
    return ()


def _present_partitions(table: Table | FormatTable) -> list[bytes]:
    if isinstance(table, FormatTable):
        return [table.directories.row_of(partition.spec) for partition in partitions_of_files(table)]
    return [table.access.partition_of(partition.spec) for partition in partitions_of(table)]


def _typed(table: str, spec: Mapping[str, str | None], fields: Sequence[DataField]) -> dict[str, Any]:
    """Return the typed values of a statement's texts."""
    typed: dict[str, Any] = {}
    for field in fields:
        if field.name in spec:
            value: Any = pa.array([spec[field.name]], pa.string())
            try:
                typed[field.name] = cast_exactly(value, type_to_arrow(field.type))[0].as_py()
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise InvalidInputError(
                    f"'{spec[field.name]}' is no value of the partition column '{field.name}' of '{table}': {error}"
                ) from error
    return typed


_OF_TABLES = (
    Procedure(
        name="create_table_like_statement",
        description="CREATE TABLE … LIKE",
        parameters=(TABLE, required("source"), required("properties"), required("if_not_exists")),
        columns=(),
        call=_create_table_like,
        is_statement=True,
    ),
    Procedure(
        name="drop_partitions_statement",
        description="ALTER TABLE … DROP PARTITION",
        parameters=(TABLE, required("specs"), required("if_exists")),
        columns=(),
        call=_drop_partitions,
        is_statement=True,
    ),
)
"""Procedures of the statements, by their SQL."""


def _object(call: ProcedureCall) -> GrantObject | None:
    """Return the object of a statement."""
    kind = call.given("kind")
    if kind is None or kind in ("server", "catalog"):
        return None if kind is None else GrantObject(kind=kind)
    if kind == "database":
        parts = name_parts(str(call.needed("on")))
        assert parts is not None, "the statement quotes the name"
        return GrantObject(kind=kind, database=parts[0])
    name = call.table_name("on").identifier
    return GrantObject(kind=kind, database=name.database, name=name.table)


def _grantee(call: ProcedureCall) -> GrantHolder | None:
    kind = call.given("grantee_kind")
    return None if kind is None else GrantHolder(kind=kind, name=str(call.needed("grantee")))


def _change(call: ProcedureCall) -> Answer:
    catalog, action = call.catalog, call.needed("action")
    if action == "create role":
        catalog.create_role(call.needed("role"))
        return ()
    if action == "drop role":
        catalog.drop_role(call.needed("role"))
        return ()
    grantee, on = _grantee(call), _object(call)
    assert grantee is not None, "each other statement has a grantee"
    names, has_option = str(call.needed("names")).split(","), call.given("option") == "true"
    columns = call.given("columns")
    if action == "grant role":
        for name in names:
            catalog.grant_role(name, to=grantee, admin_option=has_option)
        return ()
    is_cascade = call.given("cascade") == "true"
    if action == "revoke role":
        if is_cascade:
            raise InvalidInputError("REVOKE of a role has no CASCADE: what its members gave stays. Leave it out.")
        for name in names:
            catalog.revoke_role(name, of=grantee, admin_option_only=has_option)
        return ()
    assert on is not None, "privileges are on an object"
    granted = None if columns is None else name_parts(str(columns))
    assert columns is None or granted, "the statement quotes the names"
    if action == "grant":
        catalog.grant(names, on=on, to=grantee, columns=granted, grant_option=has_option)
    else:
        catalog.revoke(names, on=on, of=grantee, columns=granted, grant_option_only=has_option, cascade=is_cascade)
    return ()


def _show_roles(call: ProcedureCall) -> Answer:
    found = call.catalog.current_roles() if call.given("current") == "true" else call.catalog.list_roles()
    return [(role,) for role in found]


def _show_principals(call: ProcedureCall) -> Answer:
    return [
        (each.member.kind, each.member.name, each.admin_option, each.grantor)
        for each in call.catalog.list_role_members(call.needed("role"))
    ]


def _show_grants(call: ProcedureCall) -> Answer:
    return [
        (
            each.privilege,
            each.on.kind,
            ".".join(name for name in (each.on.database, each.on.name, each.on.column) if name is not None)
            or each.on.catalog,
            each.to.kind,
            each.to.name,
            each.grant_option,
            each.grantor,
        )
        for each in call.catalog.list_grants(on=_object(call), to=_grantee(call))
    ]


_OBJECT = (optional("kind"), optional("on"))
_GRANTEE = (optional("grantee_kind"), optional("grantee"))
_FLAG = ArgumentType.BOOLEAN

_OF_GRANTS = (
    Procedure(
        name="change_grants_statement",
        description="Carries out GRANT, REVOKE, CREATE ROLE and DROP ROLE.",
        parameters=(
            required("action"),
            optional("role"),
            optional("names"),
            optional("columns"),
            *_OBJECT,
            *_GRANTEE,
            optional("option"),
            optional("cascade"),
        ),
        call=_change,
    ),
    Procedure(
        name="show_roles_statement",
        description="Lists the roles that the user sees, or those that it has.",
        parameters=(optional("current"),),
        columns=(column("role"),),
        call=_show_roles,
    ),
    Procedure(
        name="show_principals_statement",
        description="Lists the members of a role.",
        parameters=(required("role"),),
        columns=(column("principal_type"), column("principal"), column("admin_option", _FLAG), column("grantor")),
        call=_show_principals,
    ),
    Procedure(
        name="show_grants_statement",
        description="Lists the grants on an object and to a user, a group or a role.",
        parameters=(*_OBJECT, *_GRANTEE),
        columns=(
            column("privilege"),
            column("object_type"),
            column("object"),
            column("principal_type"),
            column("principal"),
            column("grant_option", _FLAG),
            column("grantor"),
        ),
        call=_show_grants,
    ),
)


def _change_policy(call: ProcedureCall) -> Answer:
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


_OF_POLICIES = (
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
        call=_change_policy,
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

STATEMENTS = (*_OF_TABLES, *_OF_GRANTS, *_OF_POLICIES)
