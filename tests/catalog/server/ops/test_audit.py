"""The audit log: which calls it records, and with which fields."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.server.auth.delegation.hadoop_token import HadoopToken, TokenIdentifier
from interbed.catalog.server.ops.logs import AuditLog, is_change, subject
from interbed.catalog.server.thrift.edge.call import Call, CallOutcome, ClientSession
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore, ttypes
from tests.support.servers.metastore import table
from tests.support.waits import at_most

TOKEN = HadoopToken(
    identifier=TokenIdentifier(owner="ann", renewer="", real_user="", issued_at=1, max_at=2, sequence=17, key_id=1),
    password=b"secret",
)
PARTITION = ttypes.Partition(dbName="d", tableName="t", values=["1", "x"])


def call(method: str, outcome: CallOutcome = CallOutcome.OK, error: str | None = None, **arguments: Any) -> Call:
    """Return a call of a method of the interface with these arguments."""
    return Call(
        request_id="r-1",
        method=method,
        session=ClientSession(peer="127.0.0.1:5", user="ann"),
        seconds=0.25,
        outcome=outcome,
        error=error,
        arguments=getattr(ThriftHiveMetastore, f"{method}_args")(**arguments),
    )


def about(database: str = "d", **more: object) -> dict[str, object]:
    """Return the fields that identify an object in the default catalog."""
    return {"catalog": "hive", "database": database, **more}


@pytest.mark.parametrize(
    ("method", "arguments", "expected"),
    [
        ("create_database", {"database": ttypes.Database(name="d")}, about()),
        ("drop_database", {"name": "@spark#d", "deleteData": True}, {"catalog": "spark", "database": "d"}),
        (
            "drop_database_req",
            {"req": ttypes.DropDatabaseRequest(name="d", catalogName="c")},
            about() | {"catalog": "c"},
        ),
        (
            "scheduled_query_maintenance",
            {
                "request": ttypes.ScheduledQueryMaintenanceRequest(
                    1, ttypes.ScheduledQuery(scheduleKey=ttypes.ScheduledQueryKey("q", "n"))
                )
            },
            {"scheduled_query": "q", "namespace": "n"},
        ),
        ("create_table", {"tbl": table("d", "t")}, about(table="t")),
        ("create_table_req", {"request": ttypes.CreateTableRequest(table=table("d", "t"))}, about(table="t")),
        ("drop_table", {"dbname": "d", "name": "t"}, about(table="t")),
        ("alter_table", {"dbname": "d", "tbl_name": "t", "new_tbl": table("d", "t")}, about(table="t")),
        ("alter_table", {"dbname": "d", "tbl_name": "t", "new_tbl": table("e", "u")}, about(table="t", to="e.u")),
        (
            "alter_table_req",
            {"req": ttypes.AlterTableRequest(dbName="d", tableName="t", table=table("d", "u"))},
            about(table="t", to="u"),
        ),
        ("add_partition", {"new_part": PARTITION}, about(table="t", partitions=["1/x"], partition_count=1)),
        (
            "add_partitions_req",
            {"request": ttypes.AddPartitionsRequest(dbName="d", tblName="t", parts=[PARTITION] * 2)},
            about(table="t", partitions=["1/x", "1/x"], partition_count=2),
        ),
        (
            "drop_partition_by_name",
            {"db_name": "d", "tbl_name": "t", "part_name": "p=1"},
            about(table="t", partitions=["p=1"], partition_count=1),
        ),
        (
            "truncate_table",
            {"dbName": "d", "tableName": "t", "partNames": [f"p={n}" for n in range(12)]},
            about(table="t", partitions=[f"p={n}" for n in range(10)], partition_count=12),
        ),
        (
            "exchange_partition",
            {"source_db": "d", "source_table_name": "t", "dest_db": "e", "dest_table_name": "u"},
            about(table="t", to="e.u"),
        ),
        ("drop_function", {"dbName": "d", "funcName": "f"}, about(function="f")),
        ("create_function", {"func": ttypes.Function(dbName="d", functionName="f")}, about(function="f")),
        (
            "add_primary_key",
            {"req": ttypes.AddPrimaryKeyRequest([ttypes.SQLPrimaryKey(table_db="d", table_name="t")])},
            about(table="t"),
        ),
        ("create_catalog", {"catalog": ttypes.CreateCatalogRequest(ttypes.Catalog(name="c"))}, {"catalog": "c"}),
        (
            "update_table_column_statistics",
            {"stats_obj": ttypes.ColumnStatistics(ttypes.ColumnStatisticsDesc(dbName="d", tableName="t"), [])},
            about(table="t"),
        ),
        (
            "get_delegation_token",
            {"token_owner": "ann", "renewer_kerberos_principal_name": "hive"},
            {"principal": "ann", "renewer": "hive"},
        ),
        ("renew_delegation_token", {"token_str_form": TOKEN.to_text()}, {"sequence": "17"}),
        ("cancel_delegation_token", {"token_str_form": "secret"}, {"sequence": "not a token"}),
        ("add_token", {"token_identifier": "i", "delegation_token": "secret"}, {}),
        ("remove_token", {"token_identifier": "i"}, {}),
        ("add_master_key", {"key": "secret"}, {}),
        ("update_master_key", {"seq_number": 1, "key": "secret"}, {}),
        ("remove_master_key", {"key_seq": 1}, {}),
    ],
)
def test_a_change_is_logged_with_the_object_that_it_changes(
    method: str, arguments: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert is_change(method)
    assert subject(method, call(method, **arguments).arguments) == expected


def test_counts_and_lists_of_rest_requests_have_the_types_of_thrifts() -> None:
    on = ttypes.HiveObjectRef(objectType=ttypes.HiveObjectType.TABLE, dbName="d", objectName="t", catName="hive")
    info = ttypes.PrivilegeGrantInfo(privilege="SELECT", grantor="root", grantorType=1)
    grant = ttypes.HiveObjectPrivilege(hiveObject=on, principalName="ann", principalType=1, grantInfo=info)
    bag = ttypes.PrivilegeBag(privileges=[grant, grant])
    by_thrift = subject("grant_privileges", call("grant_privileges", privileges=bag).arguments)
    by_rest = subject("interbed.grant", {"grants": ["SELECT on hive.d.t for user ann"] * 2, "grant_count": 2})
    assert by_rest == by_thrift
    shown = subject("interbed.readRows", {"prefix": "hive", "rows": 3, "bytes": 4.0, "branch": "b"})
    assert shown == {"catalog": "hive", "rows": 3, "bytes": 4.0, "branch": "b"}


def test_reads_and_locks_are_not_audited() -> None:
    assert not any(map(is_change, ("get_table", "lock", "unlock", "heartbeat", "set_ugi", "getMetaConf", "flushCache")))


def test_a_line_has_the_user_the_call_the_peer_and_the_outcome(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    log = AuditLog(file)
    log.observed(call("drop_table", dbname="d", name="t"))
    log.observed(call("drop_table", CallOutcome.REFUSED, "d.none does not exist", dbname="d", name="none"))
    log.observed(call("get_table", dbname="d", tbl_name="t"))
    log.close()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line.pop("time")[-6:] for line in lines] == ["+00:00"] * 2
    common = {"request_id": "r-1", "method": "drop_table", "peer": "127.0.0.1:5", "user": "ann", "seconds": 0.25}
    assert lines == [
        {**common, **about(table="t"), "outcome": "ok"},
        {**common, **about(table="none"), "outcome": "refused", "error": "d.none does not exist"},
    ]


def test_a_rotated_file_is_created_again(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    log = AuditLog(file)
    log.observed(call("drop_table", dbname="d", name="a"))
    file.rename(tmp_path / "audit.jsonl.1")
    log.observed(call("drop_table", dbname="d", name="b"))
    log.close()
    assert json.loads((tmp_path / "audit.jsonl.1").read_text())["table"] == "a"
    assert json.loads(file.read_text())["table"] == "b"


def test_many_threads_and_two_logs_share_a_file(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    logs = [AuditLog(file), AuditLog(file)]

    def work(log: AuditLog, number: int) -> None:
        for count in range(50):
            log.observed(call("drop_table", dbname="d", name=f"t{number}_{count}_" + "x" * 100))

    threads = [threading.Thread(target=work, args=(logs[number % 2], number)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=at_most(60))
    names = {json.loads(line)["table"] for line in file.read_text().splitlines()}
    assert len(names) == 400
    for log in logs:
        log.close()


def test_names_of_any_length_and_any_characters_give_one_line_each(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    log = AuditLog(file)
    log.observed(call("drop_table", dbname='d"\n', name="t\ud800" + "x" * 10_000))
    log.close()
    [line] = file.read_bytes().splitlines()
    assert len(line) < 2000


def test_a_full_disk_is_logged_and_fails_no_call(caplog: pytest.LogCaptureFixture) -> None:
    log = AuditLog(Path("/dev/full"))
    log.observed(call("drop_table", dbname="d", name="t"))
    log.close()
    # Not caplog.text: its format depends on the logging that was configured in this process before.
    (message,) = [r.getMessage() for r in caplog.records if r.name == "interbed.audit"]
    assert "cannot write to the audit log /dev/full" in message
    assert '"table": "t"' in message


def test_a_path_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no-such"):
        AuditLog(tmp_path / "no-such" / "audit.jsonl")
