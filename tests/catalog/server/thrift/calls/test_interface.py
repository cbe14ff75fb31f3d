"""Our interface definition compared with the code that hmsclient has generated from Hive's own."""

from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore as ForeignService
from hmsclient.genthrift.hive_metastore import ttypes as foreign
from thrift.Thrift import TType

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.process.main import dispatcher_for
from interbed.catalog.server.service.service import Metastore
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore, ttypes

# Fields that changed between Hive 2.3 and 3.0; readers skip a field of an unexpected type.
MOVED = {
    ("InsertEventRequestData", 1),
    ("InsertEventRequestData", 2),
    ("LockComponent", 7),
}

STRUCTURES = sorted(
    name for name in dir(foreign) if getattr(getattr(foreign, name), "thrift_spec", None) and hasattr(ttypes, name)
)


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_have_the_same_fields(name: str) -> None:
    ours = _fields(getattr(ttypes, name))
    for number, (field, kind) in _fields(getattr(foreign, name)).items():
        if (name, number) not in MOVED and number in ours:
            assert ours[number] == (field, kind), f"field {number} of {name}"


def test_methods_take_the_same_arguments() -> None:
    compared = 0
    for name in dir(ForeignService):
        if name.endswith("_args") and hasattr(ThriftHiveMetastore, name):
            theirs, ours = _fields(getattr(ForeignService, name)), _fields(getattr(ThriftHiveMetastore, name))
            assert {number: ours.get(number) for number in theirs} == theirs, name
            compared += 1
    assert compared > 100


def test_the_main_enumerations_have_the_same_values() -> None:
    for name in ("LockType", "LockLevel", "LockState", "PrincipalType", "HiveObjectType", "ResourceType"):
        for value, text in getattr(foreign, name)._VALUES_TO_NAMES.items():
            assert getattr(ttypes, name)._VALUES_TO_NAMES[value] == text


def test_every_method_of_the_interface_that_spark_calls_is_served(tmp_path: Any) -> None:
    store = SqlRepository(f"sqlite:///{tmp_path / 'metastore.db'}")
    served = dispatcher_for(Metastore(store, f"file:{tmp_path}")).method_names
    store.close()
    bundled = """set_ugi get_database get_databases create_database get_tables get_tables_by_type get_functions
        get_table
        create_table_with_environment_context alter_table_with_environment_context get_partitions_ps_with_auth
        add_partitions_req get_partition_names get_partitions_by_filter drop_partition_with_environment_context
        drop_table_with_environment_context get_all_tables drop_database alter_database shutdown"""
    hive_4 = """get_database_req create_database_req alter_database_req drop_database_req get_table_req create_table_req
        alter_table_req drop_table_req get_table_objects_by_name_req get_partition_names_ps_req
        get_partitions_ps_with_auth_req get_partitions_by_filter_req fetch_partition_names_req drop_partition_req
        add_partitions_req"""
    assert set(bundled.split()) | set(hive_4.split()) <= served


def _fields(structure: Any) -> dict[int, tuple[str, int]]:
    # Strings and binaries are encoded alike.
    return {
        field[0]: (field[2], TType.STRING if field[1] == TType.STRING else field[1])
        for field in structure.thrift_spec or ()
        if field
    }
