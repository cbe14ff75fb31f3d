"""The README and the tour that it links: each runs from top to bottom on one warehouse, as a reader types it."""

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

import interbed
from interbed.catalog.server import settings as server_settings
from interbed.testing import metastore
from tests.iceberg.publish.readers import read_by_others
from tests.ingest.shop import event
from tests.ingest.test_kafka_to_tables import make_topic, produce
from tests.support.pages import Page
from tests.support.servers.kafka import running_kafka
from tests.support.servers.ports import free_port
from tests.support.servers.postgres import postgres_server
from tests.support.waits import at_most

README = Path(__file__).resolve().parents[2] / "README.md"
TOUR = README.parent / "docs/tour.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LISTENS = "interbed catalog server listening on "

MORE = pa.table({"id": [3, 4], "name": ["z", "y"], "amount": [1.5, 9.0], "dt": ["2026-01-02"] * 2})
DIRTY = "id,name,amount,dt\n5,ok,2.5,2026-01-02\nsix,bad,1,2026-01-02\n7,bad,1.2.3,2026-01-02\n8,,4,2026-01-02\n"

ENDS = {
    "interbed ingest kafka": "--until-end",
    "interbed optimizer run": "--until-idle",
    "interbed server": "--port 0",
}
"""Options that let a command end, or take a free port."""

SAFE_SERVER = "interbed server --config server.toml"


def statements(block: str) -> list[str]:
    """Return the statements of a block of SQL, in order."""
    return [s.strip().rstrip(";") for s in re.split(r";\s*\n", re.sub(r"  --.*", "", block)) if s.strip()]


@dataclass
class ReaderSession:
    """Session of a reader with the commands typed so far and their results."""

    session: SparkSession
    home: Path
    environment: dict[str, str]
    changes: dict[str, str]
    """Replacements of names in the page."""
    stack: ExitStack
    names: dict[str, Any] = field(default_factory=dict)
    printed: dict[str, str] = field(default_factory=dict)
    answers: dict[str, list[Row]] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)

    def type_block(self, language: str, block: str) -> None:
        """Type one block of the page."""
        if language == "python":
            exec(self.changed(block), self.names)
        elif language == "toml":
            (self.home / "server.toml").write_text(block, encoding="utf-8")
            # The server checks its settings when it loads them.
            server_settings.load(self.home / "server.toml", {}, {})
        elif "iceberg_scan" in block:
            for statement in statements(self.changed(block)):
                [(self.others[statement], error)] = read_by_others([("duckdb", statement)])
                assert error is None, error
        elif language == "sql":
            for statement in statements(self.changed(block)):
                self.answers[statement] = self.session.sql(statement).collect()
        else:
            # Line by line: one line starts the server, whose address the next lines use.
            for line in block.splitlines():
                self.type_line(self.changed(line))

    def changed(self, text: str) -> str:
        """Return the text with its names replaced."""
        for name, here in self.changes.items():
            text = text.replace(name, here)
        return text

    def type_line(self, line: str) -> None:
        """Type one line of a shell; lines of pip and make are typed elsewhere."""
        [program, *words] = shlex.split(line, comments=True)
        if program == "export":
            [name, _, value] = words[0].partition("=")
            self.environment[name] = value
        elif program == "interbed":
            typed = shlex.join([program, *words])
            command = [sys.executable, "-W", "error", "-m", "interbed.cli", *words]
            command += [w for begin, more in ENDS.items() if typed.startswith(begin) for w in more.split()]
            if typed == SAFE_SERVER:
                # It would take the ports of the first one; tests/catalog/server/auth/test_ten_lines.py runs it.
                return
            if typed.startswith("interbed server"):
                self.start_server(command)
                return
            done = subprocess.run(
                command,
                cwd=self.home,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=at_most(120),
                check=False,
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
            self.printed[typed] = done.stdout
        else:
            assert program in ("pip", "make"), line

    def start_server(self, command: list[str]) -> None:
        """Start the server, whose address replaces that of the page from here on."""
        server = self.stack.enter_context(
            subprocess.Popen(command, cwd=self.home, env=self.environment, stdout=subprocess.PIPE, text=True)
        )
        self.stack.callback(server.terminate)
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line.startswith(LISTENS), line
        self.changes["thrift://127.0.0.1:9083"] = line.removeprefix(LISTENS).strip()

    def output(self, begin: str) -> str:
        """Return the output of the command with that beginning."""
        [found] = [text for line, text in self.printed.items() if line.startswith(begin)]
        return found


def test_a_newcomer_types_the_readme_from_top_to_bottom(
    spark: SparkSession, tmp_path: Path, environment: dict[str, str]
) -> None:
    with ExitStack() as stack:
        tour = ReaderSession(spark.newSession(), tmp_path, environment, {"/tmp/lake": f"{tmp_path}/lake"}, stack)
        for language, block in BLOCK.findall(README.read_text(encoding="utf-8")):
            tour.type_block(language, block)
        items = {"id": 1, "name": "x", "amount": 8.0}
        assert tour.names["table"].scan().to_arrow().to_pylist() == [items]
        [first] = [rows for statement, rows in tour.answers.items() if "VERSION AS OF 1" in statement]
        assert sorted((row.id, row.amount) for row in first) == [(1, 3.0), (2, 9.5)]
        assert "8.0" in tour.output("interbed sql")
        uri = tour.changes["thrift://127.0.0.1:9083"]
        with interbed.load_catalog(metastore="hive", uri=uri, warehouse=f"file:{tmp_path}/lake") as catalog:
            assert catalog.get_table("shop.items").scan().to_arrow().to_pylist() == [items]


@pytest.mark.long
def test_a_newcomer_types_the_tour_from_top_to_bottom(
    spark: SparkSession, tmp_path: Path, environment: dict[str, str]
) -> None:
    pq.write_table(MORE, tmp_path / "more.parquet")
    (tmp_path / "dirty.csv").write_text(DIRTY)
    with ExitStack() as stack:
        kafka = stack.enter_context(running_kafka())
        make_topic(kafka, "shop.public.clicks")
        produce(kafka, "shop.public.clicks", [event("c", None, {"id": n, "v": f"c{n}"}, "clicks") for n in (1, 2)])
        source = stack.enter_context(metastore(warehouse=f"file:{tmp_path}/old"))
        with interbed.load_catalog(metastore="hive", uri=source, warehouse=f"file:{tmp_path}/old") as old:
            old.create_database("moved")
            old.create_table_as("moved.t", [{"id": 1}])
        changes = {
            "/tmp/lake": f"{tmp_path}/lake",
            "file:/lake": f"file:{tmp_path}/lake",
            "127.0.0.1:9092": kafka.bootstrap_servers,
            "postgresql://interbed@db/metastore": stack.enter_context(postgres_server()),
            "thrift://java-host:9083": source,
            "--health-port 9084": f"--health-port {free_port()}",
        }
        tour = ReaderSession(spark.newSession(), tmp_path, environment, changes, stack)
        for language, block in BLOCK.findall(TOUR.read_text(encoding="utf-8")):
            tour.type_block(language, block)
            if "create_table" in block:
                # Another page that the README links, with a separate warehouse.
                assert Page("tutorial.md").run_python(warehouse=tmp_path / "tutorial") >= 20

        check_commands(tour)
        check_spark(tour)
        check_ways_in_and_out(tour)


def check_commands(tour: ReaderSession) -> None:
    """Assert that unfit rows of the CSV are listed, and the others are in the table."""
    assert "shop.orders" in tour.output("interbed table list")
    assert "imported 2 rows" in tour.output("interbed table import shop.orders more.parquet")
    assert "imported 2 rows" in tour.output("interbed table import shop.orders dirty.csv")
    rejected = [json.loads(line) for line in (tour.home / "bad.jsonl").read_text().splitlines()]
    assert [(bad["line"], bad["column"]) for bad in rejected] == [(3, "id"), (4, "amount")]
    assert tour.output("interbed table scan").splitlines()[0] == '"id","name","amount","dt","note"'
    assert "2026-01-02" in tour.output("interbed sql")


def check_spark(tour: ReaderSession) -> None:
    """Assert that Spark reads the rows of Python and of the command line, and the reverse."""
    [orders] = [rows for statement, rows in tour.answers.items() if statement.endswith("FROM lake.shop.orders")]
    assert sorted(row.id for row in orders) == [1, 3, 4, 5, 8]
    tagged = tour.answers["SELECT * FROM lake.shop.clients VERSION AS OF 'new-year'"]
    assert {(row.id, row.amount) for row in tagged} == {(1, 8.0), (3, 1.0)}
    assert tour.names["catalog"].get_table("shop.clients").scan().count() == 2


def check_ways_in_and_out(tour: ReaderSession) -> None:
    """Assert that ingestion, the optimizer, another engine and the server agree about the tables."""
    clicks = tour.names["catalog"].get_table("shop.clicks").scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["v"]) for row in clicks) == [(1, "c1"), (2, "c2")]
    for name in ("shop.orders", "shop.clients", "shop.clicks"):
        assert name in tour.output("interbed optimizer status")
    assert "shop.orders" in tour.output("interbed optimizer why")
    assert list(tour.others.values()) == [[["1", "8.0"], ["3", "1.0"]]]
    uri = tour.changes["thrift://127.0.0.1:9083"]
    with interbed.load_catalog(metastore="hive", uri=uri, warehouse=tour.changes["file:/lake"]) as catalog:
        assert set(catalog.list_tables("shop")) == {"orders", "clients", "clicks"}
        assert catalog.get_table("shop.orders").scan().count() == 5
        assert catalog.get_table("moved.t").scan().to_arrow().to_pylist() == [{"id": 1}]


@pytest.fixture(name="environment")
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Environment variables of a reader with an empty home."""
    monkeypatch.delenv("INTERBED_CONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", f"{tmp_path}/state")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return {**os.environ}


@pytest.mark.long
def test_spark_reports_why_a_metastore_lacks_a_table(spark: SparkSession, tmp_path: Path) -> None:
    with interbed.load_catalog(warehouse=f"file:{tmp_path}/lake") as catalog:
        catalog.create_database("shop")
        catalog.create_table_as("shop.orders", [{"id": 1}])
    with metastore(warehouse=f"file:{tmp_path}/unused") as uri:
        session = spark.newSession()
        session.sql(
            f"CREATE CATALOG lake WITH ('type'='interbed', 'metastore'='hive', 'uri'='{uri}', "
            f"'warehouse'='file:{tmp_path}/lake')"
        )
        session.sql("CREATE NAMESPACE lake.shop")
        for statement in (
            "SELECT * FROM lake.shop.orders",
            "INSERT INTO lake.shop.orders VALUES (2)",
            "CREATE TABLE lake.shop.orders (id BIGINT)",
            "CREATE TABLE IF NOT EXISTS lake.shop.orders (id BIGINT)",
            "CREATE TABLE lake.shop.orders AS SELECT 1 AS id",
        ):
            with pytest.raises(Exception, match="holds a table") as caught:
                session.sql(statement)
            assert "interbed catalog repair shop.orders" in str(caught.value), statement
        session.sql("DROP TABLE IF EXISTS lake.shop.orders")
        session.sql("CALL lake.sys.repair('shop.orders')")
        assert session.sql("SELECT * FROM lake.shop.orders").count() == 1
