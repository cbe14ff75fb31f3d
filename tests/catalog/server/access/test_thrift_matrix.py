"""Every method of Hive's interface, called by callers with more and more privileges, held to one table."""

import shutil
from pathlib import Path

import pytest

from interbed.catalog.server.process.main import dispatcher_for
from tests.catalog.server.access.guarded import CALLERS, CLERK, READER, guarded_metastore
from tests.catalog.server.access.matrix import ThriftMatrix, rows_of

# The letters of a caller without rights, a reader, a writer, the owner of the database, and an administrator;
# matrix.py explains them.
EXPECTED = {
    "addda": """
        drop_catalog
    """,
    "ddaaa": """
        lock
    """,
    "dddda": """
        add_master_key add_token create_catalog scheduled_query_maintenance
    """,
    "ddddm": """
        add_runtime_stats get_all_token_identifiers get_master_keys get_runtime_stats get_scheduled_query get_token
        remove_master_key remove_token scheduled_query_poll scheduled_query_progress update_master_key
    """,
    "maaaa": """
        fetch_partition_names_req get_aggr_stats_for get_all_table_constraints get_all_tables get_catalog
        get_catalogs get_database get_database_req get_fields get_fields_req
        get_fields_with_environment_context get_notification_events_count get_num_partitions_by_filter
        get_part_specs_by_filter get_partition get_partition_by_name get_partition_column_statistics
        get_partition_names get_partition_names_ps get_partition_names_ps_req get_partition_names_req
        get_partition_req get_partition_values get_partition_with_auth get_partitions get_partitions_by_expr
        get_partitions_by_filter get_partitions_by_filter_req get_partitions_by_names
        get_partitions_by_names_req get_partitions_ps get_partitions_ps_with_auth
        get_partitions_ps_with_auth_req get_partitions_pspec get_partitions_req get_partitions_spec_by_expr
        get_partitions_statistics_req get_partitions_with_auth get_partitions_with_specs get_primary_keys
        get_schema get_schema_req get_schema_with_environment_context get_table get_table_column_statistics
        get_table_objects_by_name get_table_objects_by_name_req get_table_req get_table_statistics_req
        isPartitionMarkedForEvent
    """,
    "mdaaa": """
        add_partition add_partition_with_environment_context add_partitions add_partitions_pspec
        add_partitions_req alter_partition alter_partition_with_environment_context alter_partitions
        alter_partitions_req alter_partitions_with_environment_context append_partition
        append_partition_by_name append_partition_by_name_with_environment_context append_partition_req
        append_partition_with_environment_context delete_column_statistics_req
        delete_partition_column_statistics delete_table_column_statistics drop_partition
        drop_partition_by_name drop_partition_by_name_with_environment_context drop_partition_req
        drop_partition_with_environment_context drop_partitions_req exchange_partition exchange_partitions
        fire_listener_event markPartitionForEvent set_aggr_stats_for truncate_table truncate_table_req
        update_creation_metadata update_partition_column_statistics update_partition_column_statistics_req
        update_table_column_statistics update_table_column_statistics_req
    """,
    "mddaa": """
        add_check_constraint add_default_constraint add_foreign_key add_not_null_constraint add_primary_key
        add_unique_constraint alter_database alter_database_req alter_table alter_table_req
        alter_table_with_cascade alter_table_with_environment_context create_function create_table
        create_table_req create_table_with_constraints create_table_with_environment_context drop_database
        drop_database_req drop_table drop_table_req drop_table_with_environment_context rename_partition
        rename_partition_req
    """,
    "mddda": """
        alter_catalog create_database create_database_req
    """,
    "mddmm": """
        drop_constraint
    """,
    "mddss": """
        translate_table_dryrun
    """,
    "mmmaa": """
        alter_function drop_function get_function
    """,
    "mmmmm": """
        aliveSince cancel_delegation_token check_lock create_type drop_type flushCache getCounter getCounters
        getCpuProfile getMetaConf getName getOption getOptions getStatus getStatusDetails getVersion
        get_all_materialized_view_objects_for_rewriting get_check_constraints get_config_value
        get_current_notificationEventId get_default_constraints get_delegation_token get_foreign_keys
        get_materialization_invalidation_info get_materialized_views_for_rewriting get_metastore_db_uuid
        get_not_null_constraints get_type get_type_all get_unique_constraints heartbeat
        partition_name_has_valid_characters partition_name_to_spec partition_name_to_vals reinitialize
        renew_delegation_token setMetaConf setOption set_ugi show_locks shutdown unlock
    """,
    "mmmss": """
        get_all_functions get_functions get_functions_req
    """,
    "mssss": """
        get_all_databases get_databases get_databases_req get_next_notification get_table_meta
        get_table_names_by_filter get_tables get_tables_by_type get_tables_ext
    """,
}

OF_GRANTS = frozenset(
    [
        "create_role",
        "drop_role",
        "get_role_names",
        "list_roles",
        "get_principals_in_role",
        "get_role_grants_for_principal",
        "grant_role",
        "revoke_role",
        "grant_revoke_role",
        "grant_privileges",
        "revoke_privileges",
        "grant_revoke_privileges",
        "get_privilege_set",
        "list_privileges",
        "refresh_privileges",
    ]
)
"""Methods about roles and privileges, which grants decide."""

ROWS = rows_of(EXPECTED)

OF_WHOLE_TABLES = frozenset(
    rows_of(
        {
            "d": """
        fetch_partition_names_req get_num_partitions_by_filter get_part_specs_by_filter get_partition
        get_partition_by_name get_partition_names get_partition_names_ps get_partition_names_ps_req
        get_partition_names_req get_partition_req get_partition_values get_partition_with_auth get_partitions
        get_partitions_by_expr get_partitions_by_filter get_partitions_by_filter_req get_partitions_by_names
        get_partitions_by_names_req get_partitions_ps get_partitions_ps_with_auth
        get_partitions_ps_with_auth_req get_partitions_pspec get_partitions_req get_partitions_spec_by_expr
        get_partitions_with_auth get_partitions_with_specs isPartitionMarkedForEvent
    """
        }
    )
)
"""Methods that a reader of a table may call, and a reader of some of its columns may not."""


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> ThriftMatrix:
    """Return the calls on a metastore that is put back to what it was before each."""
    directory = tmp_path_factory.mktemp("matrix")
    root = directory / "metastore"
    root.mkdir()
    with guarded_metastore(root):
        pass
    return ThriftMatrix(Path(shutil.copytree(root, directory / "pristine")), root)


@pytest.mark.parametrize("method", sorted(ROWS))
def test_each_caller_may_do_what_the_table_says(matrix: ThriftMatrix, method: str) -> None:
    assert matrix.letters(method) == ROWS[method]


@pytest.mark.parametrize("method", sorted(ROWS))
def test_a_reader_of_columns_may_do_what_a_reader_may_but_for_what_shows_the_table(
    matrix: ThriftMatrix, method: str
) -> None:
    expected = "d" if method in OF_WHOLE_TABLES else ROWS[method][CALLERS.index(READER)]
    assert matrix.letter(method, CLERK) == expected


def test_every_method_has_a_row(matrix: ThriftMatrix) -> None:
    with guarded_metastore(matrix.pristine, filled=False) as guarded:
        served = dispatcher_for(guarded.metastore).method_names
    assert served - OF_GRANTS == set(ROWS)
