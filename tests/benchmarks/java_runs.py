"""The same work on copies of one table, in a process of interbed and in a JVM with Java Paimon.

Figures are CPU seconds of all threads: `cold` is the first copy of a process, `warm` the minimum of the others.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.support.peers.cache import built_once, fingerprint, java_jars, run

REPEATS = 4
TIMEOUT_SECONDS = 1_800
_JAVA = Path(__file__).parent / "java"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """CPU seconds of the first run of a process, and of the best later one."""

    cold: float
    warm: float

    @staticmethod
    def of(seconds: list[float]) -> "RunFigures":
        """Return the figures of successive runs."""
        return RunFigures(cold=seconds[0], warm=min(seconds[1:]))


Pair = tuple[RunFigures, RunFigures]
"""Our figures and Java's."""


def copies_of(warehouse: Path, scratch: Path) -> tuple[list[Path], list[Path]]:
    """Return copies of a warehouse for interbed, and as many for Java; they share the data files."""
    copies = [scratch / f"copy-{i}" for i in range(2 * REPEATS)]
    for copy in copies:
        shutil.copytree(warehouse, copy, copy_function=_copy)
    return copies[:REPEATS], copies[REPEATS:]


def _copy(source: str, target: str) -> None:
    # Data files are immutable, so copies share them; hints of the newest snapshot are overwritten.
    (os.link if source.endswith(".parquet") else shutil.copyfile)(source, target)


def java(program: str, *arguments: object) -> RunFigures:
    """Run a program of the folder `java`; its output is the CPU seconds of its runs, as JSON."""
    source = _JAVA / f"{program}.java"

    def build(directory: Path) -> None:
        run("javac", "-proc:none", "-nowarn", "-d", directory, "-cp", f"{java_jars()}/*", source)

    classes = built_once(f"{program.lower()}-{fingerprint(source)}", build)
    opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.nio", "java.lang", "sun.nio.ch")]
    options = ("java", "-Xms2g", "-Xmx4g", "-XX:+UseParallelGC", "-Xss4m", *opens)
    return seconds_of([*options, "-cp", f"{classes}:{java_jars()}/*", program, *map(str, arguments)])


def seconds_of(command: list[str]) -> RunFigures:
    """Run a command whose last line of output is the CPU seconds of its runs, as JSON. End this program if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return RunFigures.of(json.loads(done.stdout.splitlines()[-1]))


def show_pairs(title: str, found: Mapping[str, Pair], goals: Mapping[str, float], console: Console) -> None:
    """Print the figures as a table."""
    view = Table(title=f"{title}: CPU seconds, warm (cold)", title_justify="left")
    for name in ("work", "interbed", "Java Paimon", "ratio warm", "ratio cold", "goal"):
        view.add_column(name, justify="left" if name == "work" else "right")
    for name, (ours, theirs) in found.items():
        cells = [f"{f.warm:.2f} ({f.cold:.2f})" for f in (ours, theirs)]
        ratios = [f"{theirs.warm / ours.warm:.2f}", f"{theirs.cold / ours.cold:.2f}"]
        view.add_row(name, *cells, *ratios, f"{goals[name]:.1f}" if name in goals else "")
    console.print(view)


def pairs_as_json(found: Mapping[str, Pair]) -> dict[str, Any]:
    """Return the figures for `--json`."""
    sides = ("interbed", "java")
    return {
        name: {side: {"cold_cpu_s": f.cold, "warm_cpu_s": f.warm} for side, f in zip(sides, figures, strict=True)}
        for name, figures in found.items()
    }
