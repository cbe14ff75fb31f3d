"""Build the wheel and the sdist, check both, install both in empty environments, and print their sizes.

    make dist ARGS="--python python3.12 --python python3.13"

Everything is built twice, each time from a fresh copy of the committed source tree: first the sdist and the wheel out
of that, then both from the tree. The bytes must be equal. Then

- `twine check`, and the list of files compared with the source tree;
- the wheel and, with INTERBED_BUILD_WITHOUT_JAR=1, the sdist in environments without a JDK on the PATH; the sdist with
  a JDK. In each `smoke.py` runs in an empty folder. The wheel is also installed for each --python;
- the sdist without a JDK ends with one line that says what to do.

The distributions are left in dist/. It takes about five minutes with a warm cache of pip, and needs a JDK and network.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.packaging.contents import sdist_problems, wheel_problems
from tests.packaging.environment import SECONDS_MAX, DistributionError, VirtualEnvironment, run, without_jdk
from tests.packaging.source_tree import ROOT, copy_sources, release_problems, uncommitted, version

REFUSAL = re.compile(r"javac was not found in JAVA_HOME or on the PATH\. .*set INTERBED_BUILD_WITHOUT_JAR=1")


def main() -> None:
    """Build and check; exit with a message at the first fault."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.packaging", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--python", action="append", default=[], help="another Python to install the wheel for")
    parser.add_argument("--tag", help="the tag of a release; must fit the version and the changelog")
    parser.add_argument("--allow-dirty", action="store_true", help="build from files that are not committed, too")
    arguments = parser.parse_args()
    problems = release_problems(arguments.tag) if arguments.tag else []
    if not arguments.allow_dirty:
        problems += [f"Not committed: {line}" for line in uncommitted()]
    _end_with(problems)
    try:
        with tempfile.TemporaryDirectory(prefix="interbed-dist-") as name:
            _build_and_check(Path(name), arguments.python)
    except DistributionError as error:
        sys.exit(str(error))


def _build_and_check(scratch: Path, pythons: list[str]) -> None:
    sources = copy_sources(scratch / "first")
    copy_sources(scratch / "second")
    wheel, sdist = _built(scratch, "first", [])
    _end_with(_difference(wheel, sdist, *_built(scratch, "second", ["--wheel", "--sdist"])))
    _end_with(wheel_problems(wheel, sources, version(), with_jar=True) + sdist_problems(sdist, sources, version()))
    run([sys.executable, "-m", "twine", "check", "--strict", wheel, sdist], scratch)
    _say("built twice with equal bytes; metadata and contents are right")

    for number, python in enumerate([sys.executable, *pythons]):
        environment = _environment(scratch / f"wheel-{number}", python)
        _install(environment, wheel, without_jdk(environment.folder))
        _say(f"wheel, {python}, no JDK", environment.smoke(version(), with_jar=True))
    environment = _environment(scratch / "sdist", sys.executable)
    _install(environment, sdist, dict(os.environ))
    _say("sdist, with a JDK", environment.smoke(version(), with_jar=True))
    environment = _environment(scratch / "without-jar", sys.executable)
    _say("sdist, no JDK", _refusal(environment, sdist))
    _install(environment, sdist, {**without_jdk(environment.folder), "INTERBED_BUILD_WITHOUT_JAR": "1"})
    _say("sdist, no JDK, INTERBED_BUILD_WITHOUT_JAR=1", environment.smoke(version(), with_jar=False))

    output = ROOT / "dist"
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir()
    for file in (wheel, sdist):
        shutil.copy2(file, output)
        print(f"{file.stat().st_size:>12,} bytes  sha256 {_digest(file)}  dist/{file.name}")


def _built(scratch: Path, tree: str, options: list[str]) -> tuple[Path, Path]:
    """Return the wheel and the sdist of a tree; without options the wheel is built from the sdist."""
    output = scratch / f"{tree}-dist"
    # The build environment gets the versions of constraints.txt, so that a release can be reproduced.
    variables = {**os.environ, "PIP_CONSTRAINT": str(scratch / tree / "constraints.txt")}
    run([sys.executable, "-m", "build", "--outdir", output, *options, scratch / tree], scratch, variables)
    (wheel,), (sdist,) = output.glob("*.whl"), output.glob("*.tar.gz")
    return wheel, sdist


def _difference(wheel: Path, sdist: Path, wheel_again: Path, sdist_again: Path) -> list[str]:
    pairs = ((wheel, wheel_again), (sdist, sdist_again))
    return [f"{a} and {b} differ." for a, b in pairs if _digest(a) != _digest(b)]


def _environment(folder: Path, python: str) -> VirtualEnvironment:
    run([python, "-m", "venv", folder], folder.parent)
    return VirtualEnvironment(folder)


def _install(environment: VirtualEnvironment, distribution: Path, variables: dict[str, str]) -> None:
    run([environment.python, "-m", "pip", "install", "--quiet", distribution], environment.folder, variables)


def _refusal(environment: VirtualEnvironment, sdist: Path) -> str:
    """Return pip's message about a build without a JDK: one line of interbed."""
    command = [str(environment.python), "-m", "pip", "install", str(sdist)]
    done = subprocess.run(
        command,
        env=without_jdk(environment.folder),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    said = done.stdout + done.stderr
    lines = [line.strip() for line in said.splitlines() if REFUSAL.search(line)]
    if done.returncode == 0 or not lines or "Traceback" in said:
        raise DistributionError(f"Without a JDK {' '.join(command)} ended with {done.returncode}:\n{said}")
    return lines[0]


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _say(title: str, details: str = "") -> None:
    print(f"- {title}", *(f"    {line}" for line in details.splitlines()), sep="\n", flush=True)


def _end_with(problems: list[str]) -> None:
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
