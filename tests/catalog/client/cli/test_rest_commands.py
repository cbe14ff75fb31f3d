"""Every command for tables and catalogs on a REST catalog: the same answers as on the file system."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from interbed.cli import main
from tests.support.servers.metastore import metastore
from tests.support.servers.paimon_rest import rest_options

SHORT = """
catalog create-database shop
table create shop.t --column 'id BIGINT' --column 'name STRING' --column 'dt STRING' \
--primary-key dt,id --partition-key dt --table-option bucket=1
table import shop.t {rows}
sql "INSERT INTO shop.t VALUES (1, 'a', 'x'), (2, 'b', 'y')"
sql "UPDATE shop.t SET name = 'q' WHERE id = 1"
sql "DELETE FROM shop.t WHERE id = 4"
sql "SELECT * FROM shop.t ORDER BY id"
table get shop.t dt=x id=1
table alter shop.t --add-column 'more INT'
table describe shop.t
catalog drop-database shop --cascade
"""

WHOLE = """
catalog create-database shop
catalog list
catalog config
table create shop.t --column 'id BIGINT' --column 'name STRING' --column 'dt STRING' \
--primary-key dt,id --partition-key dt --table-option bucket=1 --table-option changelog-producer=input
table create shop.a --column 'id BIGINT' --table-option metadata.iceberg.storage=table-location
table list shop
table import shop.t {rows}
sql "INSERT INTO shop.t VALUES (1, 'a', 'x'), (2, 'b', 'y')"
sql "INSERT INTO shop.a VALUES (1), (2)"
sql "UPDATE shop.t SET name = 'q' WHERE id = 1"
sql "DELETE FROM shop.t WHERE id = 4"
sql "MERGE INTO shop.t USING (SELECT 9 AS id, 'm' AS name, 'x' AS dt) AS s \
ON shop.t.id = s.id AND shop.t.dt = s.dt WHEN NOT MATCHED THEN INSERT (id, name, dt) VALUES (s.id, s.name, s.dt)"
sql "SELECT * FROM shop.t ORDER BY id"
table scan shop.t
table scan shop.t$files --columns level,record_count
table head shop.t
table get shop.t dt=x id=1
table describe shop.t
table schema shop.t
table snapshots shop.t
table changes shop.t
table levels shop.t
table health shop.t
table explain shop.t
table fsck shop.t
optimizer plan shop.t
optimizer why shop.t
optimizer pause shop.t
optimizer resume shop.t
optimizer status
optimizer groups
optimizer history
optimizer workers
table create-tag shop.t one
table rename-tag shop.t one uno
table replace-tag shop.t uno --snapshot 2
table create-tag shop.t two --snapshot 1
table tags shop.t
table create-branch shop.t b --tag uno
table branches shop.t
table rename-branch shop.t b c
table fast-forward shop.t c
table delete-branch shop.t c
table create-tag shop.a all
table create-branch shop.a b --tag all
sql "INSERT INTO shop.`a$branch_b` VALUES (3)"
table merge-branch shop.a b
table merge-branch shop.t none
table delete-tag shop.t two
table expire-tags shop.t
table create-automatic-tags shop.t
table reset-consumer shop.t me --next-snapshot 1
table consumers shop.t
table clear-consumers shop.t
table compact shop.t
compact shop
table compact-manifests shop.t
table expire-snapshots shop.t --retain-min 1 --retain-max 3
table rollback shop.t uno
table alter shop.t --add-column 'more INT' --set-option write-only=true
table rescale shop.t --buckets 2
table remove-orphan-files shop.t
table remove-unexisting-files shop.t
table mark-partition-done shop.t dt=x
table expire-partitions shop.t --expiration-time '1 d' --timestamp-formatter yyyyMMdd
table publish-iceberg shop.a
table publish-log shop.t
table rename shop.t shop.u
sql "SELECT count(*) FROM shop.u"
table purge shop.u --yes
sql "SELECT count(*) FROM shop.u"
table drop shop.u --yes
table drop shop.u --yes
catalog repair shop
catalog drop-database shop
catalog drop-database shop --cascade
catalog list
"""

REFUSED = (
    "table merge-branch shop.t none",
    "table publish-log shop.t",
    "catalog repair shop",
    "catalog drop-database shop",
    "table drop shop.u --yes",
)
"""Commands that are refused in both catalogs, one of them at its second time."""

_VARIABLE = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.+]+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+\.\d+ [a-zµ]+|\d{13}")


def answers(commands: Sequence[str], options: dict[str, str], warehouse: Path) -> list[tuple[str, int, str]]:
    """Run the commands; return each with its exit code and output, without times, ids and the warehouse."""
    given = [part for key, value in options.items() for part in ("-o", f"{key}={value}")]
    found = []
    for command in commands:
        result = CliRunner().invoke(main, [*given, *shlex.split(command.replace("`", ""))])
        assert result.exception is None or isinstance(result.exception, SystemExit), (command, result.exception)
        output = _VARIABLE.sub("…", result.output.replace(str(warehouse), "WAREHOUSE"))
        found.append((command, result.exit_code, output))
    return found


def compared(script: str, tmp_path: Path) -> list[tuple[str, int, str]]:
    """Return the answers of a REST catalog, after comparing them with those of the file system."""
    rows = tmp_path / "rows.csv"
    rows.write_text("id,name,dt\n4,d,z\n5,e,z\n")
    commands = script.format(rows=rows).strip().splitlines()
    files = answers(commands, {"warehouse": f"file:{tmp_path}/files"}, tmp_path / "files")
    with metastore(warehouse=f"file:{tmp_path}/rest") as uri:
        rest = answers(commands, rest_options(uri.paimon, "hive"), tmp_path / "rest")
    assert [(command, code) for command, code, _ in rest] == [(command, code) for command, code, _ in files]
    for (command, _, output), (_, _, expected) in zip(rest, files, strict=True):
        if command.startswith(("sql", "table scan", "table get", "table changes", "table tags", "table branches")):
            assert output == expected, command
    return rest


def test_commands_work_on_a_rest_catalog(tmp_path: Path) -> None:
    assert [command for command, code, _ in compared(SHORT, tmp_path) if code] == []


@pytest.mark.long
def test_every_command_answers_as_on_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = compared(WHOLE, tmp_path)
    assert {command for command, code, _ in found if code} == set(REFUSED)
    assert "nothing to repair" in next(output for command, _, output in found if command.startswith("catalog repair"))
    tried = {tuple(command.split()[:2]) for command, _, _ in found}
    context = click.Context(main)
    for name in ("table", "catalog"):
        group = main.get_command(context, name)
        assert isinstance(group, click.Group)
        assert {(name, each) for each in group.list_commands(context)} <= tried
