"""Hive 4.0.1's own tests of its metastore client, run against a metastore of this project or of Hive.

`ClientSuite` starts tests/peers/hive_client/java/ClientSuite.java, a JVM that runs one class of JUnit 4 after the
other. Maven fetches the jars once into the tests' cache.

The outcomes of the classes on Hive's own metastore 4.0.1 are in tests/peers/hive_client/reference.json. This command
records them again, in a quarter of an hour:

    python -m tests.support.peers.hive_client
"""

import json
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.support.peers.cache import built_once, fingerprint, run
from tests.support.servers.java_metastore import PEERS, QUICK_START, running_java_metastore
from tests.support.waits import at_most

PACKAGE = "org.apache.hadoop.hive.metastore.client"
STOP_SECONDS_MAX = at_most(60)

_DIRECTORY = PEERS / "hive_client"

REFERENCE = _DIRECTORY / "reference.json"

JAVA_SETTINGS = {
    "fs.trash.interval": "30",
    "fs.trash.checkpoint.interval": "30",
    "metastore.limit.partition.request": "100",
}
"""Settings with which Hive starts its own metastore in these tests."""

_LOGGING = """\
status=ERROR
appender.err.type=Console
appender.err.name=err
appender.err.target=SYSTEM_ERR
appender.err.layout.type=PatternLayout
appender.err.layout.pattern=%d{HH:mm:ss.SSS} %p %c{1}: %m%n
rootLogger.level=ERROR
rootLogger.appenderRef.err.ref=err
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassOutcome:
    """Outcome of a test class: the number of passed tests, and the reason of each failure by the name of the test."""

    passed: int
    failed: Mapping[str, str]


class ClientSuite:
    """The JVM of the suite; close it (or leave its `with` block) to end it."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="interbed-hive-client-", ignore_cleanup_errors=True)
        self.home = home = Path(self._directory.name)
        logging = home / "log4j2.properties"
        logging.write_text(_LOGGING, "utf-8")
        self.log = home / "stderr.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "java",
                    "-Xmx512m",
                    *QUICK_START,
                    f"-Duser.home={home}",
                    f"-Djava.io.tmpdir={home}",
                    f"-Dlog4j2.configurationFile={logging}",
                    *("-cp", client_classpath()),
                    "ClientSuite",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=home,
                text=True,
            )

    def settings(self, warehouse: Path) -> tuple[str, ...]:
        """Return settings for this project's server with this warehouse that correspond to JAVA_SETTINGS."""
        return (
            # The tests truncate, drop and move tables in the JVM's temporary directory and in Hive's second warehouse.
            *("--deletion-roots", f"warehouse,databases,file:{self.home},file:{warehouse}_external"),
            *("--limit-partition-request", "100"),
            # One class creates all its tables with `transactional`, to test lists of tables.
            *("--transactional-tables", "keep"),
            *("--trash-seconds", "30min"),
            # Hadoop's location of the trash: the tests look into the home directory of the current user.
            *("--trash-directory", f"file:{self.home}/.Trash"),
            # The tests look for `Current`, which the first pass of the reaper renames.
            *("--reaper-seconds", "1h"),
        )

    def run(self, uri: str, warehouse: Path, name: str) -> ClassOutcome:
        """Run the class of this name against a metastore whose warehouse is this directory.

        Raises RuntimeError if the JVM ends.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{uri}\tfile:{warehouse}\t{PACKAGE}.{name}\n")
        self._process.stdin.flush()
        passed = 0
        failed: dict[str, str] = {}
        for line in iter(self._process.stdout.readline, ""):
            if line == "end\n":
                return ClassOutcome(passed=passed, failed=failed)
            outcome, test, why = line.rstrip("\n").split("\t")
            passed += outcome == "passed"
            if outcome == "failed":
                failed[test.partition("[")[0]] = why
        raise RuntimeError(f"the JVM ended within {name}:\n{self.log.read_text(errors='replace')[-4000:]}")

    def close(self) -> None:
        """End the JVM of the suite."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=STOP_SECONDS_MAX)
        self._process.stdout.close()
        self._directory.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def client_classpath() -> str:
    """Return the class path of Hive's client and of the programs beside its tests; built once."""
    pom = _DIRECTORY / "pom.xml"
    sources = sorted((_DIRECTORY / "java").rglob("*.java"))

    def copy_jars(directory: Path) -> None:
        run("mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={directory}")

    jars = built_once(f"hive-client-4.0.1-{fingerprint(pom)}", copy_jars)

    def compile_sources(directory: Path) -> None:
        # -proc:none: the annotation processors in some jars would only warn.
        run("javac", "-proc:none", "-nowarn", "-d", directory, "-cp", f"{jars}/*", *sources)

    classes = built_once(f"hive-client-suite-{fingerprint(pom, *sources)}", compile_sources)
    return f"{classes}:{jars}/*"


def reference() -> dict[str, ClassOutcome]:
    """Return the recorded outcome of each class on Hive's own metastore 4.0.1."""
    recorded = json.loads(REFERENCE.read_text("utf-8"))
    return {
        name: ClassOutcome(passed=each["passed"], failed=dict.fromkeys(each["failed"], ""))
        for name, each in recorded.items()
    }


def run_on_java(suite: ClientSuite, name: str) -> ClassOutcome:
    """Run a class against Hive's own metastore 4.0.1, empty and with Hive's settings for these tests."""
    with (
        tempfile.TemporaryDirectory(prefix="interbed-hive-client-") as home,
        running_java_metastore(
            "4.0.1",
            directory=Path(home),
            settings=JAVA_SETTINGS,
            java_options=(*QUICK_START, f"-Duser.home={suite.home}"),
        ) as running,
    ):
        return suite.run(running.uri, running.warehouse, name)


def record() -> None:
    """Run every class on Hive's own metastore and record the outcomes."""
    with ClientSuite() as suite:
        outcomes = {name: run_on_java(suite, name) for name in reference()}
    recorded = {name: {"passed": each.passed, "failed": sorted(each.failed)} for name, each in sorted(outcomes.items())}
    REFERENCE.write_text(json.dumps(recorded, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    record()
