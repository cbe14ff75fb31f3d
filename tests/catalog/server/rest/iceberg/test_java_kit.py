"""The compatibility kit of Iceberg 1.10.0 in Java, on a server of this package.

Both classes pass with no failure. The tests that are aborted are those for which the kit knows itself that they do not
apply (locations that a server chooses). The kit has no setting for namespaces of several levels: a class of its own in
tests/peers/iceberg_rest_kit says that this catalog has them.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.catalog.server.rest.iceberg.rest_server import IcebergRest, rest_server
from tests.support.peers.cache import built_once, fingerprint, run
from tests.support.peers.spark import PEERS, maven_jars
from tests.support.waits import at_most

pytestmark = pytest.mark.long

CLASSES = ("interbed.NestedCatalogTests", "org.apache.iceberg.rest.RESTCompatibilityKitViewCatalogTests")
NESTED = "testListNestedNamespaces"
"""A test that the kit aborts for catalogs whose namespaces have one level."""
PASSED_LEAST = 140


@pytest.fixture(scope="module")
def kit_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergRest]:
    """Run a server with nothing in it but the default database."""
    directory = tmp_path_factory.mktemp("kit")
    with rest_server(f"sqlite:///{directory / 'metastore.db'}", directory) as running:
        yield running


def test_all_tests_of_the_kit_pass(kit_server: IcebergRest, tmp_path: Path) -> None:
    jars = maven_jars("iceberg_rest_kit", "iceberg-rest-kit-1.10.0")
    kit = PEERS / "iceberg_rest_kit"
    (source,) = (kit / "java").glob("*.java")

    def build(directory: Path) -> None:
        run("javac", "-proc:none", "-nowarn", "-d", directory, "-cp", f"{jars}/*", source)

    compiled = built_once(f"iceberg-rest-kit-nested-{fingerprint(kit / 'pom.xml', source)}", build)
    classes = [f"--select-class={name}" for name in CLASSES]
    settings = ("-Drck.local=false", "-Drck.requires-namespace-create=true", "-Drck.supports-names-with-dot=true")
    launcher = ("org.junit.platform.console.ConsoleLauncher", "execute", "--details=tree", "--disable-ansi-colors")
    java = ("java", "-Xmx700m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    ended = subprocess.run(
        [*java, *settings, "-cp", f"{compiled}:{jars}/*", *launcher, *classes],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "CATALOG_URI": kit_server.uri, "CATALOG_WAREHOUSE": "hive"},
        timeout=at_most(600),
        check=False,
    )
    failed = re.findall(r"^.*\[X\].*$", ended.stdout, re.MULTILINE)
    assert failed == [], ended.stdout[-20_000:]
    passed = re.search(r"(\d+) tests successful", ended.stdout)
    assert passed is not None, ended.stdout[-5000:] + ended.stderr[-5000:]
    assert int(passed[1]) >= PASSED_LEAST
    assert ended.returncode == 0
    assert re.search(rf"{NESTED}\(\) (✔|\[OK\])", ended.stdout), ended.stdout[-20_000:]
