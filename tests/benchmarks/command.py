"""What the benchmarks have in common as programs: their command line, and stages in processes of their own."""

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
    """Parse the command line of a benchmark that takes one number, and `--json`; measure; show."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(option, dest="number", metavar="N", type=int, default=default)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    # Into a file the tables go unfolded.
    console = Console(stderr=arguments.json, width=None if sys.stdout.isatty() else 160)
    found = measure(console, arguments.number)
    show(found, console)
    if arguments.json:
        print(json.dumps(as_json(found), indent=2))


def in_process(module: str, stage: str, *arguments: object, timeout: float) -> Figures:
    """What `module --stage stage …` printed by `print_figures`; RuntimeError with its last words if it failed."""
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
    """The most memory that this program had. Where the system tells it only of the process (`ru_maxrss`), what the
    parent had when it started this one counts, too.
    """
    try:
        status = Path("/proc/self/status").read_text()
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024
