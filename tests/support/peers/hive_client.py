"""The tests that Hive 4.0.1 has for its metastore's client, run against a metastore of ours or of Java's.

`ClientSuite` starts tests/peers/hive_client/java/ClientSuite.java, a JVM that runs one class of JUnit 4 after the
other. The jars come by Maven once, into the tests' cache.

What Java's own metastore 4.0.1 makes of the classes is in tests/peers/hive_client/reference.json; this records it anew,
in a quarter of an hour:

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

PACKAGE = "org.apache.hadoop.hive.metastore.client"
STOP_SECONDS_MAX = 60

_DIRECTORY = PEERS / "hive_client"

REFERENCE = _DIRECTORY / "reference.json"

JAVA_SETTINGS = {
    "fs.trash.interval": "30",
    "fs.trash.checkpoint.interval": "30",
    "metastore.limit.partition.request": "100",
}
"""What Hive sets up its own metastore with in these tests."""

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
    """What became of a class of tests: how many passed, and why each of those failed that did, by name."""

    passed: int
    failed: Mapping[str, str]


class ClientSuite:
    """The JVM; close it (or leave its `with`) to end it."""

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
                    *("-cp", _classpath()),
                    "ClientSuite",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=home,
                text=True,
            )

    def settings(self, warehouse: Path) -> tuple[str, ...]:
        """What our own server with this warehouse is started with, the like of JAVA_SETTINGS."""
        return (
            # The tests truncate, drop and move tables in the JVM's temporary directory and in Hive's second warehouse.
            *("--deletion-roots", f"warehouse,databases,file:{self.home},file:{warehouse}_external"),
            *("--limit-partition-request", "100"),
            # A class of them makes all its tables with `transactional`, to look at lists of tables.
            *("--transactional-tables", "keep"),
            *("--trash-seconds", "30min"),
            # Where Hadoop has it: the tests look into the home directory of who runs them.
            *("--trash-directory", f"file:{self.home}/.Trash"),
            # The tests look for `Current`, which the first look of the reaper renames.
            *("--reaper-seconds", "1h"),
        )

    def run(self, uri: str, warehouse: Path, name: str) -> ClassOutcome:
        """Run the class of this name against a metastore whose warehouse is this directory.

        RuntimeError if the JVM ends.
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
        """End the JVM."""
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


def _classpath() -> str:
    pom = _DIRECTORY / "pom.xml"
    sources = sorted((_DIRECTORY / "java").rglob("*.java"))

    def copy_jars(directory: Path) -> None:
        run("mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={directory}")

    jars = built_once(f"hive-client-4.0.1-{fingerprint(pom)}", copy_jars)

    def compile_sources(directory: Path) -> None:
        # -proc:none: some jars carry annotation processors that would only warn.
        run("javac", "-proc:none", "-nowarn", "-d", directory, "-cp", f"{jars}/*", *sources)

    classes = built_once(f"hive-client-suite-{fingerprint(pom, *sources)}", compile_sources)
    return f"{classes}:{jars}/*"


def reference() -> dict[str, ClassOutcome]:
    """What became of each class on Java's own metastore 4.0.1, as it was recorded."""
    recorded = json.loads(REFERENCE.read_text("utf-8"))
    return {
        name: ClassOutcome(passed=each["passed"], failed=dict.fromkeys(each["failed"], ""))
        for name, each in recorded.items()
    }


def run_on_java(suite: ClientSuite, name: str) -> ClassOutcome:
    """Run a class against Java's own metastore 4.0.1, empty and set up as Hive sets it up for these tests."""
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
    """Run every class on Java's own metastore and write down what became of it."""
    with ClientSuite() as suite:
        outcomes = {name: run_on_java(suite, name) for name in reference()}
    recorded = {name: {"passed": each.passed, "failed": sorted(each.failed)} for name, each in sorted(outcomes.items())}
    REFERENCE.write_text(json.dumps(recorded, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    record()
