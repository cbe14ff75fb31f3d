"""The cost of work in a Spark session: CPU seconds of the driver, its JVM and the Python workers, and wall seconds."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class ProcessCpu:
    """CPU seconds of a process: its own, and those of its ended and reaped children."""

    own: float
    ended: float


def cpu_by_process() -> dict[tuple[int, float], ProcessCpu]:
    """Return the CPU seconds of this process and all its descendants, by process id and start time."""
    me = psutil.Process()
    found = {}
    for process in [me, *me.children(recursive=True)]:
        try:
            times = process.cpu_times()
            key = process.pid, process.create_time()
        except psutil.NoSuchProcess:
            continue
        found[key] = ProcessCpu(times.user + times.system, times.children_user + times.children_system)
    return found


def cpu_seconds_between(
    before: dict[tuple[int, float], ProcessCpu], after: dict[tuple[int, float], ProcessCpu]
) -> float:
    """Return the CPU seconds between two samples. The time of a process that ended without being reaped is unknown and
    counts as 0.
    """
    nothing = ProcessCpu(0.0, 0.0)
    own = sum(now.own - before.get(key, nothing).own for key, now in after.items())
    ended = sum(now.ended - before.get(key, nothing).ended for key, now in after.items())
    gone = sum(then.own + then.ended for key, then in before.items() if key not in after)
    return own + max(ended - gone, 0.0)


def timed(work: Callable[[], object]) -> Figures:
    """Return the figures of one run."""
    before, wall = cpu_by_process(), time.perf_counter()
    work()
    wall_s = time.perf_counter() - wall
    return {"wall_s": wall_s, "cpu_s": cpu_seconds_between(before, cpu_by_process())}


def least(runs: list[Figures]) -> Figures:
    """Return the minimum of each figure: other load on the machine only adds to it."""
    return {key: min(run[key] for run in runs) for key in runs[0]}
