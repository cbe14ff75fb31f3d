"""Cache of the peers between test runs: jars, classes and Python environments, each built once.

`INTERBED_TEST_CACHE` names the directory; the default is `~/.cache/interbed-tests`. An entry is built in a temporary
directory and renamed under a file lock. Parallel test processes therefore build it once, and a killed build leaves no
entry that looks complete. Maven and pip find their registries by their own settings.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waits import at_most

INTEROP = Path(__file__).resolve().parents[2] / "interop"
BUILD_TIMEOUT_SECONDS = at_most(900)


def cache_directory() -> Path:
    """Return the directory of the cache; it is created when missing."""
    configured = os.environ.get("INTERBED_TEST_CACHE")
    directory = Path(configured) if configured else Path.home() / ".cache" / "interbed-tests"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def fingerprint(*files: Path, text: str = "") -> str:
    """Twelve hex digits that change with the content of the files, and with the text."""
    digest = hashlib.sha256(text.encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def built_once(name: str, build: Callable[[Path], None]) -> Path:
    """Return the cache entry `name`. If it does not exist yet, `build` fills an empty directory."""
    entry = cache_directory() / name
    if entry.exists():
        return entry
    with _locked(cache_directory() / f"{name}.lock"):
        if entry.exists():
            return entry
        unfinished = cache_directory() / f"{name}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        build(unfinished)
        unfinished.rename(entry)
    return entry


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        # The kernel releases the lock with its process, so a killed build does not block others.
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(*command: str | Path, timeout_seconds: float = BUILD_TIMEOUT_SECONDS) -> str:
    """Run a build step and return its output. Raises RuntimeError with the output when the step fails."""
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_seconds,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


def java_jars(hadoop: str | None = None) -> Path:
    """Return a directory of jars: Java Paimon, Hadoop's client and a silent logger, as in tests/interop/java/pom.xml.
    `hadoop` is another version of Hadoop.
    """
    pom = INTEROP / "java" / "pom.xml"
    more = [] if hadoop is None else [f"-Dhadoop.version={hadoop}"]

    def build(directory: Path) -> None:
        run("mvn", "-q", "-B", *more, "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={directory}")

    of_hadoop = "" if hadoop is None else f"hadoop-{hadoop}-"
    return built_once(f"java-paimon-1.4.2-{of_hadoop}{fingerprint(pom)}", build)


def java_sources(directory: Path) -> list[Path]:
    """Return the sources of a Java peer, including the sources that all peers share."""
    return sorted([*directory.glob("*.java"), *(INTEROP / "java_shared").glob("*.java")])


def java_classpath(hadoop: str | None = None) -> str:
    """Return the class path of PaimonPeer: its compiled classes and the jars of java_jars."""
    jars = java_jars(hadoop)
    sources = java_sources(INTEROP / "java")

    def build(directory: Path) -> None:
        # -proc:none: the annotation processors in some jars would only warn.
        run("javac", "-proc:none", "-nowarn", "-d", directory, "-cp", f"{jars}/*", *sources)

    name = f"java-peer-{fingerprint(INTEROP / 'java' / 'pom.xml', *sources)}"
    return f"{built_once(name, build)}:{jars}/*"


def python_with(name: str, requirements: Path) -> Path:
    """Return the interpreter of a separate environment with the packages of a requirements file."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"

    def build(directory: Path) -> None:
        run(sys.executable, "-m", "venv", directory)
        python = directory / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", "--no-input", "-r", requirements)

    # The symbolic link lets the interpreter find its environment after the directory is renamed.
    return built_once(f"{name}-py{version}-{fingerprint(requirements)}", build) / "bin" / "python"


def pypaimon_python() -> Path:
    """Return the interpreter of an environment with pypaimon and pypaimon-rust, which pin an older pyarrow."""
    return python_with("pypaimon-2.1.0", INTEROP / "pypaimon-requirements.txt")


def readers_python() -> Path:
    """Return the interpreter of an environment with DuckDB, its extension for Iceberg, and ClickHouse."""
    return python_with("readers", INTEROP.parent / "iceberg" / "publish" / "readers-requirements.txt")


if __name__ == "__main__":
    print(pypaimon_python())
