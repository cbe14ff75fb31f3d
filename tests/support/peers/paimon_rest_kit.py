"""The tests of REST catalogs of Paimon 1.4.2 in Java, RESTCatalogTest, on a server, run by JUnit's console.

tests/peers/paimon_rest_kit has the jars, and a subclass that connects to the server.
"""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.support.peers.cache import built_once, fingerprint, run
from tests.support.peers.spark import PEERS, maven_jars
from tests.support.waits import at_most

PEER = "paimon_rest_kit"
CLASS = "org.apache.paimon.rest.InterbedRestCatalogTest"
JVM_OPTIONS = ("-Xmx700m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true")


@dataclass(frozen=True, slots=True, kw_only=True)
class KitResult:
    """The tests by their results: names that passed, and the messages of the others."""

    passed: frozenset[str]
    failed: dict[str, str]
    aborted: dict[str, str]


def run_kit(uri: str, warehouse: str, directory: Path, tests: Sequence[str] = ()) -> KitResult:
    """Run the tests on an empty catalog; `tests` are the names of those to run, by default all."""
    jars = maven_jars(PEER, "paimon-rest-kit-1.4.2")
    sources = sorted((PEERS / PEER / "java").glob("*.java"))

    def build(classes: Path) -> None:
        run("javac", "-proc:none", "-nowarn", "-d", classes, "-cp", f"{jars}/*", *sources)

    classes = built_once(f"paimon-rest-kit-{fingerprint(PEERS / PEER / 'pom.xml', *sources)}", build)
    settings = (f"-Dinterbed.uri={uri}", f"-Dinterbed.warehouse={warehouse}")
    launcher = ("org.junit.platform.console.ConsoleLauncher", "execute", "--details=none", f"--reports-dir={directory}")
    selected = [f"--select-method={CLASS}#{name}" for name in tests] or [f"--select-class={CLASS}"]
    ended = subprocess.run(
        ["java", *JVM_OPTIONS, *settings, "-cp", f"{classes}:{jars}/*", *launcher, *selected],
        capture_output=True,
        text=True,
        cwd=directory,
        timeout=at_most(600),
        check=False,
    )
    report = directory / "TEST-junit-jupiter.xml"
    assert report.exists(), ended.stdout[-5000:] + ended.stderr[-5000:]
    return _result(report)


def _result(report: Path) -> KitResult:
    passed: set[str] = set()
    failed: dict[str, str] = {}
    aborted: dict[str, str] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = case.get("name", "").removesuffix("()")
        faults = [each for tag in ("failure", "error") for each in case.iter(tag)]
        skipped = case.find("skipped")
        if faults:
            failed[name] = "\n".join(each.text or "" for each in faults)
        elif skipped is not None:
            aborted[name] = skipped.text or ""
        else:
            passed.add(name)
    return KitResult(passed=frozenset(passed), failed=failed, aborted=aborted)
