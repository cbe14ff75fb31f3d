"""A server with an optimizer in it: `interbed server --optimizer`."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from interbed.catalog.client.factory import open_catalog
from tests.optimizer.service import lake
from tests.optimizer.service.processes import DEADLINE_SECONDS, is_alive, until
from tests.support.shares import each_run


@pytest.mark.parametrize("workers", each_run(["1", "2"], lambda workers: workers == "1"))
def test_a_server_with_an_optimizer_compacts_its_tables(workers: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "interbed.cli", "server", "--port", "0", "--workers", workers, "--optimizer"]
    command += ["--db", f"sqlite:///{tmp_path}/metastore.db", "--warehouse", f"file:{tmp_path}/lake"]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, cwd=tmp_path) as server,
    ):
        try:
            assert server.stdout is not None
            uri = server.stdout.readline().decode().split()[-1]
            with open_catalog("lake", {"metastore": "hive", "uri": uri}) as catalog:
                lake.make_tables(catalog)
                for number in range(8):
                    lake.write_round(catalog, number)
                until(lambda: lake.is_in_shape(catalog), (tmp_path / "log").read_text())
                lake.check_rows(catalog, 8)
            beside = psutil.Process(server.pid).children(recursive=True)
            assert [p for p in beside if "optimizer" in p.cmdline()]
            server.terminate()
            assert server.wait(DEADLINE_SECONDS) == 0
            until(lambda: not [p for p in beside if is_alive(p)], "nothing is left of it")
        finally:
            if server.poll() is None:
                server.kill()
