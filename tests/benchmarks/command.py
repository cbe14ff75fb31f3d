"""Command line of the benchmarks, and stages in separate processes."""

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

ROOT = Path(__file__).resolve().parents[2]

Found = TypeVar("Found")
Figures = dict[str, float]


def run_alone(
    doc: str | None,
    measure: Callable[[Console, int], Found],
    show: Callable[[Found, Console], None],
    as_json: Callable[[Found], Any],
    *,
    default: int,
    option: str = "--rows",
) -> None:
    """Parse the command line of a benchmark that takes one number and `--json`, measure, and print the figures."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(option, dest="number", metavar="N", type=int, default=default)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    # Output to a file is not wrapped.
    console = Console(stderr=arguments.json, width=None if sys.stdout.isatty() else 160)
    found = measure(console, arguments.number)
    show(found, console)
    if arguments.json:
        print(json.dumps(as_json(found), indent=2))


def in_process(module: str, stage: str, *arguments: object, timeout: float) -> Figures:
    """Return the figures that `module --stage stage …` printed by `print_figures`. Raises RuntimeError with its last
    errors if it failed.
    """
    command = [sys.executable, "-m", module, "--stage", stage, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        raise RuntimeError(f"{stage}: {done.stderr[-2000:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def print_figures(figures: Figures) -> None:
    """Print the figures of a stage with this process's `peak_mb` and `cpu_s`."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({**figures, "peak_mb": _peak_mb(), "cpu_s": usage.ru_utime + usage.ru_stime}))


def _peak_mb() -> float:
    """Return the peak memory of this program. Where the system reports it only for the process (`ru_maxrss`), it
    includes the memory of the parent at the start.
    """
    try:
        status = Path("/proc/self/status").read_text()
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024
