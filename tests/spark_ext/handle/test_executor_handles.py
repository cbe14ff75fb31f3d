"""Handles for executors: files can be opened by them, and nothing in them lets a process act as the catalog's user."""

import json
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.errors import CatalogAccessError
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.options import KNOWN, CatalogOptions, options_for_executors, secret_values
from interbed.catalog.client.rest.data_tokens import DataToken, DataTokenOrigin, HandedToken, files_with, token_of
from interbed.spark_ext.handle.reports import GuardedHandler, planner_error
from interbed.spark_ext.handle.table_handle import TableHandle, renewed
from interbed.spark_ext.write.writer import CommitToken
from interbed.storage.base.clock import now_millis
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.shown_text import is_secret
from interbed.thrift_idl.planner.ttypes import PlannerError, WriteMode

SECRETS = {
    "token": "hush-token",
    "credential": "etl:hush-credential",
    "dlf.access-key-secret": "hush-dlf",
    "dlf.security-token": "hush-session",
    "header.Authorization": "Basic hush-header",
    "hive.metastore.client.plain.password": "hush-plain",
    "optimizer.db": "postgresql://ann:hush-database@h/d",
    "table-default.metadata.iceberg.rest.token": "hush-default",
}
OF_FILES = {"s3.endpoint": "http://127.0.0.1:1", "s3.access-key": "AKID", "s3.secret-key": "key-of-files"}
OF_THE_TABLE = {"metadata.iceberg.rest.token": "hush-iceberg", "jdbc.password": "hush-jdbc"}
KEPT = {"fields.token.aggregate-function": "sum", "kafka.sasl.password": "of-the-log"}


def handle(tmp_path: Path, catalog_options: dict[str, str], options: dict[str, str]) -> TableHandle:
    """Return the handle of a table with these options, as another program may have written them."""
    with interbed.load_catalog("lake", warehouse=str(tmp_path)) as catalog:
        catalog.create_database("db", ignore_if_exists=True)
        table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
        schema: dict[str, Any] = json.loads(table.schema.to_json())
        schema["options"].update(options)
        return TableHandle(
            catalog="lake",
            catalog_options={"warehouse": str(tmp_path), **catalog_options},
            database="db",
            table="t",
            location=table.location,
            schema_json=json.dumps(schema),
            snapshot_id=None,
            dynamic_options={"metadata.iceberg.rest.token": "hush-dynamic", "read.batch-size": "7"},
        )


def test_a_handle_for_executors_has_the_options_of_files_and_no_secret_of_the_catalog(tmp_path: Path) -> None:
    driver = handle(tmp_path, {**SECRETS, **OF_FILES}, {**OF_THE_TABLE, **KEPT})
    sent = driver.for_executors()
    assert b"hush" in driver.to_bytes()
    assert b"hush" not in sent.to_bytes()
    assert TableHandle.from_bytes(sent.to_bytes()) == sent
    assert sent.file_system_options == driver.file_system_options == OF_FILES
    assert sent.schema.options.items() >= KEPT.items()
    assert sent.dynamic_options == {"read.batch-size": "7"}
    # The schema is sent as it is if nothing of it stays.
    plain = replace(driver, schema_json=sent.schema_json)
    assert plain.for_executors().schema_json is plain.schema_json


def test_a_token_of_a_commit_stays_on_the_driver(tmp_path: Path) -> None:
    token = CommitToken(handle=handle(tmp_path, SECRETS, {}), commit_user="u", mode=WriteMode.APPEND)
    assert CommitToken.from_bytes(token.to_bytes()) == token
    sent = token.for_executors().to_bytes()
    assert b"hush" not in b64decode(json.loads(sent)["handle"])
    assert CommitToken.from_bytes(sent).commit_user == "u"


def test_a_task_is_renewed_by_the_handle_of_the_driver(tmp_path: Path) -> None:
    now = now_millis()
    old, new = (DataToken(options={"n": n}, expires_millis=now + 1000 * int(n)) for n in ("10", "1000"))
    driver = replace(handle(tmp_path, {}, {}), tokens_of="1", token=old)
    task = CommitToken(handle=driver.for_executors(), commit_user="u", mode=WriteMode.APPEND)
    made = CommitToken.from_bytes(renewed(replace(driver, token=new), task.to_bytes()))
    assert made == replace(task, handle=replace(task.handle, token=new))
    assert now < (task.handle.renewed_after or 0) <= now + 10_000 < (made.handle.renewed_after or 0)
    assert handle(tmp_path / "other", {}, {}).renewed_after is None
    with pytest.raises(InvalidInputError, match="Not a task of a scan or of a write"):
        renewed(driver, b"{}")


@pytest.mark.parametrize("key", sorted(key for key in KNOWN if is_secret(key)))
def test_each_secret_option_of_a_catalog_stays_or_names_no_secret(key: str) -> None:
    given = {"metastore": "rest", "token.provider.path": "/run/token", "dlf.token-path": "/run/dlf", key: "hush"}
    sent = options_for_executors(given)
    if "hush" in sent.values():
        assert key in {"token.provider", "token.provider.path", "data-token.enabled"} or key.startswith("dlf.token-")
        assert secret_values({key: "hush"}) == set()
    else:
        assert secret_values({key: "hush"}) == {"hush"}


def test_an_executor_gets_the_file_of_a_token_and_renews_by_it() -> None:
    by_file = {
        "metastore": "rest",
        "uri": "http://h",
        "warehouse": "w",
        "token.provider": "bear",
        "token.provider.path": "/t",
    }
    assert options_for_executors({**by_file, "header.X": "hush", "s3.region": "r"}) == {**by_file, "s3.region": "r"}
    assert options_for_executors({**by_file, "metastore": "hive"}) == {}
    assert options_for_executors({"metastore": "rest", "uri": "http://h", "token": "hush"}) == {}


def test_a_token_that_was_handed_over_serves_to_its_end() -> None:
    now = [1_000]
    token = DataToken(options={"s3.secret-key": "hush"}, expires_millis=2_000)
    handed = HandedToken(token, "db.t", clock=lambda: now[0])
    assert handed.valid() is token
    now[0] = 2_000
    expired = r"files of 'db\.t'.* expired at 1970-01-01T00:00:02Z.*token\.provider"
    with pytest.raises(CatalogAccessError, match=expired) as end:
        handed.valid()
    assert "hush" not in str(end.value) + repr(handed)


def test_a_token_is_handed_over_in_the_handle_and_renewed_only_by_a_file(tmp_path: Path) -> None:
    far = 99_999_999_999_999
    token = DataToken(options={"s3.access-key": "a", "s3.secret-key": "b"}, expires_millis=far)
    given = replace(handle(tmp_path, {}, {}), tokens_of="1", token=token, location="s3://lake/t")
    sent = TableHandle.from_bytes(given.for_executors().to_bytes())
    assert sent.token == token
    assert "'b'" not in repr(sent)
    files = sent.files_by_token("1")
    assert token_of(files) == token
    # A server that can't be reached does not end the use of a token that is valid.
    by_file = {"metastore": "rest", "uri": "http://127.0.0.1:1", "warehouse": "w", "token.provider": "bear"}
    by_file["token.provider.path"] = str(tmp_path / "missing")
    near = DataToken(options=token.options, expires_millis=far)
    origin = DataTokenOrigin(CatalogOptions(by_file), Identifier("db", "t"), "1", "s3://lake/t")
    assert token_of(files_with(near, origin)) == near


def test_an_error_contains_no_secret_of_a_catalog() -> None:
    class FailingCalls:
        def call(self) -> None:
            raise ValueError("the server refused hush-token")

    with pytest.raises(PlannerError) as failed:
        GuardedHandler(FailingCalls(), {"hush-token"}).call()
    assert "hush" not in f"{failed.value.message} {failed.value.detail}"
    assert "refused ******" in failed.value.message
    assert planner_error(ValueError("a bear"), {"bear"}).message == "ValueError: a bear"
