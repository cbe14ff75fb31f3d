"""The PostgreSQL commands of docs/ingest.md, run on a real server."""

import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ingest.process import Run
from tests.ingest.shop import lake, rows_of
from tests.ingest.sources.postgres.database import Database
from tests.support.waits import at_most

PAGE = Path(__file__).parents[4] / "docs" / "ingest.md"


def commands(database: Database, warehouse: Path) -> list[list[str]]:
    """Return the commands of the page, for the given database and warehouse."""
    found = []
    for block in re.findall(r"```shell\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            text = line.replace("postgresql://reader@127.0.0.1:5432/shop", database.url)
            words = shlex.split(text.replace("file:/tmp/lake", str(warehouse)))
            if words[:3] == ["interbed", "ingest", "postgres"]:
                found.append([sys.executable, "-m", "interbed.cli", *words[1:], "--json"])
    return found


@pytest.mark.long
def test_the_commands_of_the_page_do_what_it_says(database: Database, tmp_path: Path) -> None:
    database.execute("CREATE TABLE orders (id int PRIMARY KEY)", "CREATE TABLE items (id int PRIMARY KEY)")
    database.execute("INSERT INTO orders VALUES (1)", "INSERT INTO items VALUES (2)")
    everything, one = commands(database, tmp_path / "lake")
    catalog = lake(tmp_path / "lake")
    log = tmp_path / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(everything, stdout=subprocess.PIPE, stderr=output, bufsize=0) as process,
    ):
        try:
            run = Run(process, log)
            assert run.next_commit()
            assert run.next_commit()
            process.send_signal(signal.SIGTERM)
            process.wait(at_most(60))
        finally:
            process.kill()
    assert process.returncode == 0, log.read_text()
    assert (rows_of(catalog), rows_of(catalog, "shop.items")) == ([{"id": 1}], [{"id": 2}])
    found = subprocess.run(one, capture_output=True, text=True, timeout=at_most(60), check=True)
    assert json.loads(found.stdout.splitlines()[-1])["rows"] == {"lake.sales": 1}
    assert catalog.get_table("lake.sales").options.bucket == 4
    database.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name IN ('interbed', 'sales')"
    )
