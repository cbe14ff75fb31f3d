"""The REST catalogs of a server's HTTP port: which are served, and when they are loaded."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.servers.metastore import metastore_under_test
from tests.support.waits import at_most


def status(url: str) -> int:
    """Return the status of a GET."""
    try:
        with urllib.request.urlopen(url, timeout=at_most(60)) as answer:
            assert json.load(answer) is not None
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize(("names", "served"), [("paimon", (404, 200)), ("iceberg", (200, 404)), ("", (404, 404))])
def test_only_the_interfaces_of_the_setting_are_served(tmp_path: Path, names: str, served: tuple[int, int]) -> None:
    arguments = ("--http-port", "0", "--rest-interfaces", names)
    with metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path, *arguments) as server:
        found = tuple(status(f"{server.http}/{name}/v1/config?warehouse=hive") for name in ("iceberg", "paimon"))
        assert found == served


def test_many_first_requests_are_all_answered(tmp_path: Path) -> None:
    arguments = ("--http-port", "0")
    with metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path, *arguments) as server:
        url = f"{server.http}/paimon/v1/config?warehouse=hive"
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(lambda _: status(url), range(8))) == {200}


def test_a_server_loads_arrow_for_paimon_alone() -> None:
    program = (
        "import sys, interbed.catalog.server.rest.mounted, interbed.catalog.server.process.main;"
        "import interbed.catalog.server.http.thrift; sys.exit('pyarrow' in sys.modules or 'pyiceberg' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=at_most(60), check=False).returncode == 0
