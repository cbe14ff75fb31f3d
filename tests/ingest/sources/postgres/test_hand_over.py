"""The initial copy is read while the database changes, and runs are killed: tables equal the source, row for row."""

import json
import math
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from interbed.catalog.client.api import Catalog
from interbed.ingest.tables.table_sink import TableSettings
from tests.ingest.process import Run
from tests.ingest.shop import lake
from tests.ingest.sources.postgres.database import Database
from tests.support.peers.java import JavaPaimon
from tests.support.waits import at_most, wait_until

ACCOUNTS, BALANCE = 40, 100

TRUNCATION_SECONDS = 1.0
"""The least time between two truncations: a table that is rewritten with each attempt can't be read at all."""


class BankWorkload:
    """Workload in a thread: transfers between accounts of one table, which are logged, and new and closed accounts.

    It also changes large texts, in a table with REPLICA IDENTITY FULL.
    """

    def __init__(self, database: Database, seed: int) -> None:
        self._choice = random.Random(seed)
        self._url = database.url
        self._stopped = threading.Event()
        self.extra = threading.Event()
        self.count = 0
        self._truncated = -math.inf
        database.execute("CREATE TABLE accounts (id int PRIMARY KEY, balance int, note text)")
        database.execute(
            "CREATE TABLE log (id int, amount int)", "CREATE TABLE texts (id int PRIMARY KEY, n int, v text)"
        )
        database.execute("ALTER TABLE log REPLICA IDENTITY FULL", "ALTER TABLE texts REPLICA IDENTITY FULL")
        database.execute(f"INSERT INTO accounts SELECT i, {BALANCE} FROM generate_series(1, {ACCOUNTS}) i")
        database.execute("INSERT INTO texts SELECT i, 0, repeat(md5(i::text), 200) FROM generate_series(1, 20) i")
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> "BankWorkload":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _work(self) -> None:
        choice = self._choice
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._stopped.is_set():
                one, other = choice.sample(range(1, ACCOUNTS + 1), 2)
                amount = choice.randrange(50)
                with connection.transaction():
                    run = connection.execute
                    run("UPDATE accounts SET balance = balance - %s WHERE id = %s", [amount, one])
                    run("INSERT INTO log VALUES (%s, %s)", [self.count, amount])
                    run("UPDATE texts SET n = n + 1 WHERE id = %s", [choice.randrange(1, 21)])
                    if choice.random() < 0.2:
                        # The account gets another number, and then its former one again.
                        run("UPDATE accounts SET id = id + 1000 WHERE id = %s", [one])
                        run("UPDATE accounts SET id = id - 1000 WHERE id = %s", [one + 1000])
                    if choice.random() < 0.05 and time.monotonic() > self._truncated + TRUNCATION_SECONDS:
                        self._truncated = time.monotonic()
                        run("CREATE TEMP TABLE kept ON COMMIT DROP AS SELECT * FROM accounts")
                        run("TRUNCATE accounts")
                        run("INSERT INTO accounts SELECT * FROM kept")
                    run("UPDATE accounts SET balance = balance + %s WHERE id = %s", [amount, other])
                    self.count += 1
                if self.extra.is_set():
                    self.extra.clear()
                    with connection.transaction():
                        connection.execute("UPDATE accounts SET note = 'before' WHERE id = 1")
                        connection.execute(f"ALTER TABLE accounts ADD COLUMN extra_{self.count} bigint".encode())
                        connection.execute(f"UPDATE accounts SET extra_{self.count} = 5 WHERE id = 2".encode())


def rows(catalog: Catalog, name: str) -> list[dict[str, Any]]:
    return plain(catalog.get_table(f"shop.{name}").scan().to_arrow().to_pylist())


def plain(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows in the order of their number, without nulls."""
    return sorted(({n: v for n, v in row.items() if v is not None} for row in found), key=lambda row: row["id"])


def source_rows(database: Database, name: str) -> list[dict[str, Any]]:
    return plain([row for (row,) in database.rows(f"SELECT to_jsonb(t) FROM {name} t")])


def check(catalog: Catalog, database: Database) -> None:
    for name in ("accounts", "log", "texts"):
        assert rows(catalog, name) == source_rows(database, name)


def check_no_snapshot_is_torn(catalog: Catalog) -> None:
    accounts = catalog.get_table("shop.accounts")
    for snapshot in accounts.snapshots():
        seen = accounts.copy({"scan.snapshot-id": str(snapshot.id)}).scan().to_arrow()
        balances: list[Any] = seen["balance"].to_pylist()
        assert (len(balances), sum(balances)) == (ACCOUNTS, ACCOUNTS * BALANCE)
    log = catalog.get_table("shop.log")
    for snapshot in log.snapshots():
        numbers: list[Any] = log.copy({"scan.snapshot-id": str(snapshot.id)}).scan().to_arrow()["id"].to_pylist()
        assert sorted(numbers) == list(range(len(numbers)))


def test_no_row_is_lost_or_duplicated_between_initial_copy_and_changes(database: Database, tmp_path: Path) -> None:
    catalog = lake(tmp_path)
    with BankWorkload(database, 1) as bank:
        for turn in range(3):
            before = bank.count
            wait_until(lambda before=before: bank.count > before + 20)  # type: ignore[misc]
            if turn == 1:
                bank.extra.set()
            database.read(catalog, commit_interval=0.05, tables=TableSettings())
    database.read(catalog)
    check(catalog, database)
    check_no_snapshot_is_torn(catalog)


@contextmanager
def ingesting(database: Database, warehouse: Path) -> Iterator[Run]:
    """Run the command, and kill the process at the end unless it has ended."""
    command = [sys.executable, "-m", "interbed.cli", "ingest", "postgres", "-o", f"warehouse={warehouse}", "--json"]
    command += ["--url", database.url, "--slot", database.slot, "--database", "shop", "--commit-interval", "50ms"]
    log = warehouse.parent / "ingest.log"
    with (
        log.open("ab") as output,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=output, bufsize=0) as process,
    ):
        try:
            yield Run(process, log)
        finally:
            process.send_signal(signal.SIGKILL)


@pytest.mark.long
@pytest.mark.parametrize("kills", [3, 20])
def test_tables_equal_the_source_after_any_number_of_kills(database: Database, tmp_path: Path, kills: int) -> None:
    warehouse = tmp_path / "lake"
    catalog = lake(warehouse)
    choice = random.Random(kills)
    with BankWorkload(database, kills) as bank:
        for turn in range(kills):
            with ingesting(database, warehouse) as run:
                if turn % 2:
                    assert run.next_commit()
                    if turn == 1:
                        bank.extra.set()
                    for _ in range(choice.randrange(5)):
                        run.next_commit(1)
                else:
                    # Kills hit any moment, from the start of the process on.
                    deadline = time.monotonic() + choice.random() * 5
                    while time.monotonic() < deadline:
                        run.next_commit(max(0.0, deadline - time.monotonic()))
    database.wait_until_free()
    with ingesting(database, warehouse) as run:
        wait_until(lambda: run.next_commit(0.5) or same(catalog, database))
        wait_until(lambda: same(catalog, database))
        run.stop()
    check(catalog, database)
    check_no_snapshot_is_torn(catalog)
    with JavaPaimon() as java:
        for name in ("accounts", "log", "texts"):
            seen = java.table(warehouse, f"shop.{name}").read().to_arrow().to_pylist()
            assert plain(seen) == source_rows(database, name)


def same(catalog: Catalog, database: Database) -> bool:
    return all(rows(catalog, name) == source_rows(database, name) for name in ("accounts", "log", "texts"))


def test_the_command_logs_its_progress_without_secrets(database: Database, tmp_path: Path) -> None:
    database.execute("CREATE TABLE orders (id int PRIMARY KEY)", "INSERT INTO orders VALUES (1)")
    url = database.url.replace("postgres@", "postgres:s3cret@")
    command = [sys.executable, "-m", "interbed.cli", "ingest", "postgres", "-o", f"warehouse={tmp_path}", "--url", url]
    command += ["--slot", database.slot, "--table", "shop.sales", "--until-end", "--table-option", "bucket=2"]
    found = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=at_most(60), check=True)
    events = [json.loads(line) for line in found.stdout.splitlines()]
    assert [event["event"] for event in events] == ["commit", "end"]
    assert events[-1]["rows"] == {"shop.sales": 1}
    assert "s3cret" not in found.stdout + found.stderr
    command[command.index("--url") + 1] = f"{url}?port=1"
    failed = subprocess.run(command, capture_output=True, text=True, timeout=at_most(60), check=False)
    assert failed.returncode != 0
    assert "s3cret" not in failed.stdout + failed.stderr
