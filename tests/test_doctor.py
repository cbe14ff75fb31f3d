"""`interbed doctor`: each check on an installation that is sound, and on one that is not."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import interbed
from interbed.catalog.server.database.engine import open_engine
from interbed.catalog.server.database.schema import downgrade, latest_revision
from interbed.cli import main
from interbed.doctor import (
    CheckFinding,
    CheckVerdict,
    check_authorities,
    check_certificate,
    check_database,
    check_packages,
    check_python,
    check_warehouse,
)
from interbed.storage.io.api import WrappedFileIO
from interbed.storage.io.local import LocalFileIO
from tests.support.certificates import make_certificates
from tests.support.databases import open_migrated, prepare
from tests.support.servers.metastore import new_database
from tests.support.servers.postgres import postgres_server

DAY_SECONDS = 86_400


def verdicts(findings: Iterator[CheckFinding] | list[CheckFinding]) -> dict[str, str]:
    """Return the verdict of each subject."""
    return {each.subject: str(each.verdict) for each in findings}


def examined(*arguments: str, code: int = 0) -> dict[str, dict[str, Any]]:
    """Run the command, and return its findings by their subjects."""
    done = CliRunner().invoke(main, ["doctor", *arguments, "--json"])
    assert done.exit_code == code, done.output
    return {each["subject"]: each for each in json.loads(done.stdout)}


def test_this_installation_is_sound() -> None:
    found = examined()
    assert list(found) == ["Python", "packages", "extras", "Spark", "Java", "Spark extension"]
    assert {each["verdict"] for each in found.values()} == {"ok"}
    shown = CliRunner().invoke(main, ["doctor"])
    assert shown.exit_code == 0
    assert [line.partition("  ")[0] for line in shown.stdout.splitlines()] == ["ok"] * 6


def test_an_older_python_is_reported() -> None:
    (found,) = check_python((3, 10))
    assert found.verdict is CheckVerdict.FAILED
    assert found.remedy == "Install Python 3.11 or newer."


def test_packages_that_are_missing_are_named() -> None:
    def installed(name: str) -> str:
        if name in ("click", "boto3"):
            raise PackageNotFoundError(name)
        return "1.0"

    required = ["click>=8", "pyarrow>=20", "boto3>=1.34; extra == 'aws'", 'polars>=1.0 ; extra == "polars"']
    needed, extras = check_packages(required, installed)
    assert needed.verdict is CheckVerdict.FAILED
    assert needed.found == "missing: click"
    assert extras.found == "installed: polars; not installed: aws"


def test_a_machine_without_java_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = examined(code=1)
    assert found["Java"]["verdict"] == "failed"
    assert "has no bin/java" in found["Java"]["found"]
    assert "openjdk-17" in found["Java"]["found"]


def test_a_catalog_is_opened_and_its_warehouse_tried(tmp_path: Path) -> None:
    warehouse = tmp_path / "lake"
    found = examined("-o", f"warehouse={warehouse}")
    assert found["catalog: warehouse"]["verdict"] == "warning"
    assert not warehouse.exists()
    with interbed.load_catalog(warehouse=str(warehouse)) as catalog:
        catalog.create_database("shop")
    before = sorted(warehouse.rglob("*"))
    found = examined("-o", f"warehouse={warehouse}")
    assert {each["verdict"] for each in found.values()} == {"ok"}
    assert "1 databases" in found["catalog"]["found"]
    assert {"catalog: warehouse: exclusive creation", "catalog: warehouse: clock"} < set(found)
    assert sorted(warehouse.rglob("*")) == before


def test_a_catalog_that_cannot_be_opened_is_reported() -> None:
    found = examined("-o", "metastore=hive", "-o", "uri=thrift://127.0.0.1:1", "-o", "client-timeout=1s", code=1)
    assert found["catalog"]["verdict"] == "failed"
    assert "127.0.0.1:1" in found["catalog"]["found"]


class OverwritingFileIO(WrappedFileIO):
    """A store that overwrites where it should refuse."""

    def create_exclusive(self, path: str, content: bytes) -> bool:
        """Write the file whether it exists or not."""
        self.inner.overwrite(path, content)
        return True


class UnlockedFileIO(OverwritingFileIO):
    """A store that says that it can't create a file exclusively."""

    @property
    def exclusive_create(self) -> bool:
        """Return that the store overwrites."""
        return False


@pytest.mark.parametrize(
    ("store", "has_locks", "expected"),
    [
        (LocalFileIO, False, "ok"),
        (lambda: OverwritingFileIO(LocalFileIO()), True, "failed"),
        (lambda: UnlockedFileIO(LocalFileIO()), True, "ok"),
        (lambda: UnlockedFileIO(LocalFileIO()), False, "failed"),
    ],
)
def test_stores_without_exclusive_creation_need_locks(
    tmp_path: Path, store: Callable[[], Any], has_locks: bool, expected: str
) -> None:
    found = verdicts(check_warehouse("store", str(tmp_path), store(), has_locks=has_locks))
    assert found == {"store": "ok", "store: exclusive creation": expected, "store: clock": "ok"}
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("seconds", "expected"), [(-60, "warning"), (-3, "ok"), (3, "ok"), (60, "warning")])
def test_a_clock_that_is_off_is_reported(tmp_path: Path, seconds: float, expected: str) -> None:
    checks = check_warehouse("w", str(tmp_path), LocalFileIO(), has_locks=False, clock=lambda: time.time() + seconds)
    assert verdicts(checks)["w: clock"] == expected


def test_the_database_of_a_server_is_examined_without_changing_it(tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path / "metastore.db"
    assert "a server makes it" in next(check_database(url)).found
    assert not file.exists()
    prepare(url)
    assert verdicts(check_database(url)) == {"server: database": "ok"}
    with closing(open_migrated(url)) as store:
        downgrade(store.engine, "0020")
    (earlier,) = check_database(url)
    assert earlier.found.endswith(f"migration 0020; a server migrates it to {latest_revision()} when it starts")
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()
    (newer,) = check_database(url)
    assert newer.verdict is CheckVerdict.FAILED
    assert "a newer interbed" in newer.found


def test_a_database_that_others_may_read_is_reported(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'metastore.db'}"
    prepare(url)
    (tmp_path / "metastore.db").chmod(0o644)
    assert verdicts(check_database(url)) == {"server: database": "ok", "server: database: permissions": "warning"}


def test_a_damaged_database_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "metastore.db"
    prepare(f"sqlite:///{file}")
    content = bytearray(file.read_bytes())
    content[4096:40960] = bytes(36864)
    file.write_bytes(content)
    assert verdicts(check_database(f"sqlite:///{file}"))["server: database"] == "failed"
    file.write_bytes(b"no database at all, whatever its name says" * 100)
    assert verdicts(check_database(f"sqlite:///{file}"))["server: database"] == "failed"


def test_a_database_on_postgresql_is_examined() -> None:
    with postgres_server() as server:
        url = new_database(server)
        empty = {each.subject: each for each in check_database(url)}
        assert "no tables of interbed" in empty["server: database"].found
        open_migrated(url).close()
        found = verdicts(check_database(url))
        assert found == {"server: database": "ok", "server: database: clock": "ok"}
        assert verdicts(check_database(url, clock=lambda: time.time() + 60))["server: database: clock"] == "warning"
        (absent,) = check_database(f"{url}_absent")
    assert absent.verdict is CheckVerdict.FAILED


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create certificates that are valid for two days."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize(("days", "expected"), [(-40, "ok"), (0, "warning"), (3, "failed")])
def test_the_end_of_certificates_is_reported(certificates: Path, days: int, expected: str) -> None:
    def clock() -> float:
        return time.time() + days * DAY_SECONDS

    own = check_certificate("own", certificates / "server.pem", certificates / "server.key", clock)
    (authority,) = check_authorities("authorities", certificates / "ca.pem", clock)
    assert (str(own.verdict), str(authority.verdict)) == (expected, expected)
    assert "Interbed test authority" in authority.found


def test_a_key_of_another_certificate_is_reported(certificates: Path) -> None:
    found = check_certificate("own", certificates / "server.pem", certificates / "client.key")
    assert found.verdict is CheckVerdict.FAILED
    assert (
        check_certificate("own", certificates / "absent.pem", certificates / "client.key").verdict
        is CheckVerdict.FAILED
    )
    assert verdicts(check_authorities("a", certificates / "ca.key")) == {"a": "failed"}


def test_the_settings_of_a_server_name_what_is_examined(tmp_path: Path, certificates: Path) -> None:
    (tmp_path / "lake").mkdir()
    lines = {
        "db": f"sqlite:///{tmp_path / 'metastore.db'}",
        "warehouse": f"file:{tmp_path / 'lake'}",
        "tls_certificate": str(certificates / "server.pem"),
        "tls_key": str(certificates / "server.key"),
        "tls_client_ca": str(certificates / "ca.pem"),
    }
    config = tmp_path / "server.toml"
    config.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in lines.items()))
    found = {subject: each["verdict"] for subject, each in examined("--config", str(config)).items()}
    assert {subject: found[subject] for subject in found if subject.startswith("server: ")} == {
        "server: database": "ok",
        "server: warehouse": "ok",
        "server: warehouse: exclusive creation": "ok",
        "server: warehouse: clock": "ok",
        "server: certificate": "warning",
        "server: authorities of clients": "warning",
    }
    config.write_text('warehous = "x"\n')
    wrong = examined("--config", str(config), code=1)["server: settings"]
    assert wrong["verdict"] == "failed"
    assert "warehous" in wrong["found"]
