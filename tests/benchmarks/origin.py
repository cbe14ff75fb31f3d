"""Origin of the figures: the machine, the commit, the time and the command."""

import os
import platform
import shlex
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime

import interbed
from tests.benchmarks.command import ROOT


def machine() -> str:
    """Return a line about this machine: system, processor, cores, memory, Python."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return (
        f"{platform.system()} on {platform.machine()}, {os.cpu_count()} cores, "
        f"{round(pages * size / 2**30)} GiB of memory, "
        f"Python {platform.python_version()}, interbed {interbed.__version__}"
    )


def commit() -> str:
    """Return the commit that is checked out, with `-changed` if files differ from it; empty outside of a repository."""
    command = ["git", "describe", "--always", "--dirty=-changed", "--abbrev=10", "--exclude=*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def origin(arguments: Sequence[str], target: str = "bench") -> dict[str, str]:
    """Return the head of the figures of `make bench`, or of another target, with its arguments."""
    given = shlex.join(a for a in arguments if a != "--json")
    return {
        "machine": machine(),
        "commit": commit(),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": f"make {target} ARGS={shlex.quote(given)}" if given else f"make {target}",
    }
