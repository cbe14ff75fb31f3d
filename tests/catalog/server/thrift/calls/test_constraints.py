"""Informational constraints over the wire, on SQLite and PostgreSQL."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from thrift.Thrift import TApplicationException

from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.metastore import table

COLUMNS = (("id", "int"), ("region", "string"), ("amount", "int"))


def primary_key(database: str, name: str, *columns: str, key: str | None = None) -> list[Any]:
    """Return the rows of a primary key."""
    return [
        ttypes.SQLPrimaryKey(database, name, column, number, key, False, False, True, catName="hive")
        for number, column in enumerate(columns, start=1)
    ]


def foreign_key(child: tuple[str, str, str], parent: tuple[str, str, str], name: str | None = None) -> Any:
    """Return the row of a foreign key with one column; both sides are (database, table, column)."""
    return ttypes.SQLForeignKey(
        pktable_db=parent[0],
        pktable_name=parent[1],
        pkcolumn_name=parent[2],
        fktable_db=child[0],
        fktable_name=child[1],
        fkcolumn_name=child[2],
        key_seq=1,
        update_rule=1,
        delete_rule=2,
        fk_name=name,
        enable_cstr=False,
        validate_cstr=False,
        rely_cstr=True,
        catName="hive",
    )


@contextmanager
def refused_as_by_hive(message: str) -> Iterator[None]:
    """Expect an internal error: Hive's exception is not declared, and its clients expect the error that results."""
    with pytest.raises(TApplicationException, match=message) as caught:
        yield
    assert caught.value.type == TApplicationException.INTERNAL_ERROR


def keys_of(wire: Any, database: str, name: str) -> list[Any]:
    """Return the rows of a table's primary key."""
    return list(wire.get_primary_keys(ttypes.PrimaryKeysRequest(database, name, catName="hive")).primaryKeys)


def test_every_kind_of_constraint_is_stored_with_its_table(wire: Any, database: str) -> None:
    wire.create_table(table(database, "parent", *COLUMNS))
    wire.add_primary_key(ttypes.AddPrimaryKeyRequest(primary_key(database, "parent", "id", key="PK_Parent")))
    flags = {"catName": "hive", "enable_cstr": True, "validate_cstr": False, "rely_cstr": True}
    where = {"table_db": database, "table_name": "t", **flags}
    wire.create_table_with_constraints(
        table(database, "t", *COLUMNS, partition_keys=(("dt", "string"),)),
        primary_key(database, "t", "dt", "id"),
        [foreign_key((database, "t", "amount"), (database, "parent", "id"), "fk1")],
        [ttypes.SQLUniqueConstraint(column_name="region", key_seq=1, uk_name="u1", **where)],
        [ttypes.SQLNotNullConstraint(column_name="region", nn_name="n1", **where)],
        [ttypes.SQLDefaultConstraint(column_name="amount", default_value="42", dc_name="d1", **where)],
        [ttypes.SQLCheckConstraint(column_name=None, check_expression="amount > 0", dc_name="c1", **where)],
    )
    found = keys_of(wire, database, "t")
    assert [(row.column_name, row.key_seq, row.rely_cstr) for row in found] == [("dt", 1, True), ("id", 2, True)]
    assert re.fullmatch(r"pk_\d+_\d+_0", found[0].pk_name)
    everything = wire.get_all_table_constraints(
        ttypes.AllTableConstraintsRequest(database, "t", "hive")
    ).allTableConstraints
    assert everything.primaryKeys == found
    foreign = everything.foreignKeys[0]
    assert (foreign.pktable_name, foreign.pkcolumn_name, foreign.fkcolumn_name) == ("parent", "id", "amount")
    assert (foreign.fk_name, foreign.pk_name, foreign.update_rule, foreign.delete_rule) == ("fk1", "pk_parent", 1, 2)
    assert [row.uk_name for row in everything.uniqueConstraints] == ["u1"]
    assert [(row.nn_name, row.enable_cstr) for row in everything.notNullConstraints] == [("n1", True)]
    assert [row.default_value for row in everything.defaultConstraints] == ["42"]
    assert [(row.column_name, row.check_expression) for row in everything.checkConstraints] == [(None, "amount > 0")]
    single = ttypes.NotNullConstraintsRequest("hive", database, "t")
    assert wire.get_not_null_constraints(single).notNullConstraints == everything.notNullConstraints
    assert wire.get_unique_constraints(ttypes.UniqueConstraintsRequest("hive", database, "t")).uniqueConstraints == (
        everything.uniqueConstraints
    )
    assert wire.get_default_constraints(ttypes.DefaultConstraintsRequest("hive", database, "t")).defaultConstraints == (
        everything.defaultConstraints
    )
    assert wire.get_check_constraints(ttypes.CheckConstraintsRequest("hive", database, "t")).checkConstraints == (
        everything.checkConstraints
    )


def test_foreign_keys_are_found_from_both_sides(wire: Any, database: str) -> None:
    for name in ("parent", "a", "b"):
        wire.create_table(table(database, name, *COLUMNS))
    wire.add_primary_key(ttypes.AddPrimaryKeyRequest(primary_key(database, "parent", "id")))
    for name in ("a", "b"):
        wire.add_foreign_key(
            ttypes.AddForeignKeyRequest([foreign_key((database, name, "id"), (database, "parent", "id"))])
        )

    def children(**names: Any) -> list[str]:
        request = ttypes.ForeignKeysRequest(catName="hive", **names)
        return [row.fktable_name for row in wire.get_foreign_keys(request).foreignKeys]

    assert children(parent_db_name=database, parent_tbl_name="parent") == ["a", "b"]
    assert children(foreign_db_name=database, foreign_tbl_name="b") == ["b"]
    assert children(parent_db_name=database, parent_tbl_name="a") == []
    wire.drop_table(database, "parent", True)
    assert children(foreign_db_name=database, foreign_tbl_name="b") == []


def test_constraints_survive_a_rename_of_the_table_but_not_the_drop_of_a_column(wire: Any, database: str) -> None:
    wire.create_table(table(database, "parent", *COLUMNS))
    wire.create_table(table(database, "child", *COLUMNS))
    wire.add_primary_key(ttypes.AddPrimaryKeyRequest(primary_key(database, "parent", "id")))
    wire.add_foreign_key(
        ttypes.AddForeignKeyRequest([foreign_key((database, "child", "id"), (database, "parent", "id"), "f")])
    )
    renamed = wire.get_table(database, "parent")
    renamed.tableName = "elder"
    wire.alter_table(database, "parent", renamed)
    assert [row.table_name for row in keys_of(wire, database, "elder")] == ["elder"]
    request = ttypes.ForeignKeysRequest(None, None, database, "child", catName="hive")
    assert [row.pktable_name for row in wire.get_foreign_keys(request).foreignKeys] == ["elder"]
    place = wire.get_table(database, "elder").sd.location
    wire.alter_table(database, "elder", table(database, "elder", ("new_id", "int"), *COLUMNS[1:], location=place))
    assert keys_of(wire, database, "elder") == []
    assert wire.get_foreign_keys(request).foreignKeys == []


def test_a_constraint_is_dropped_by_name(wire: Any, database: str) -> None:
    wire.create_table(table(database, "t", *COLUMNS))
    wire.add_primary_key(ttypes.AddPrimaryKeyRequest(primary_key(database, "t", "id", key="p")))
    wire.drop_constraint(ttypes.DropConstraintRequest(database, "T", "P", "hive"))
    assert keys_of(wire, database, "t") == []
    for catalog, place, name in (
        ("hive", database, "t"),
        ("hive", database, "nope"),
        ("hive", "nope", "t"),
        ("c", "d", "t"),
    ):
        with refused_as_by_hive("The constraint: p does not exist"):
            wire.drop_constraint(ttypes.DropConstraintRequest(place, name, "p", catalog))


def test_an_invalid_constraint_is_refused_and_nothing_is_stored(wire: Any, database: str) -> None:
    wire.create_table(table(database, "t", *COLUMNS))
    wire.create_table(table(database, "other", *COLUMNS))
    with refused_as_by_hive("Parent table not found: nope"):
        wire.add_primary_key(ttypes.AddPrimaryKeyRequest(primary_key(database, "nope", "id")))
    with refused_as_by_hive("Parent column not found: nope"):
        wire.add_primary_key(ttypes.AddPrimaryKeyRequest(primary_key(database, "t", "id", "nope")))
    wire.add_primary_key(ttypes.AddPrimaryKeyRequest(primary_key(database, "t", "id", key="p")))
    with pytest.raises(ttypes.MetaException, match="Primary key already exists for"):
        wire.add_primary_key(ttypes.AddPrimaryKeyRequest(primary_key(database, "t", "region")))
    unique = ttypes.SQLUniqueConstraint("hive", database, "t", "region", 1, "p", False, False, False)
    with refused_as_by_hive("Constraint name already exists: p"):
        wire.add_unique_constraint(ttypes.AddUniqueConstraintRequest([unique]))
    with pytest.raises(ttypes.MetaException, match="there are no primary keys or unique keys for referenced table"):
        wire.add_foreign_key(
            ttypes.AddForeignKeyRequest([foreign_key((database, "t", "id"), (database, "other", "id"))])
        )
    with pytest.raises(ttypes.MetaException, match="no corresponding primary key or unique key exists"):
        wire.add_foreign_key(
            ttypes.AddForeignKeyRequest([foreign_key((database, "other", "region"), (database, "t", "id"))])
        )
    request = ttypes.CreateTableRequest(
        table=table(database, "bad", *COLUMNS), primaryKeys=primary_key(database, "bad", "nope")
    )
    with pytest.raises(ttypes.InvalidObjectException, match="Parent column not found: nope"):
        wire.create_table_req(request)
    assert wire.get_all_tables(database) == ["other", "t"]
    assert len(keys_of(wire, database, "t")) == 1


def test_a_foreign_key_can_refer_to_its_own_table(wire: Any, database: str) -> None:
    request = ttypes.CreateTableRequest(
        table=table(database, "tree", *COLUMNS),
        primaryKeys=primary_key(database, "tree", "id"),
        foreignKeys=[foreign_key((database, "tree", "amount"), (database, "tree", "id"))],
    )
    wire.create_table_req(request)
    wire.drop_table(database, "tree", True)
    assert wire.get_all_tables(database) == []
