"""What work in a Spark session costs: CPU seconds of the driver, its JVM and the Python workers, and wall seconds."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class ProcessCpu:
    """CPU seconds of a process: its own, and those of the processes below it that have ended and were waited for."""

    own: float
    ended: float


def cpu_by_process() -> dict[tuple[int, float], ProcessCpu]:
    """What this process and all below it have spent, by process id and start."""
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
    """CPU seconds spent in between. What a process spent that ended unwaited for is unknown and counts as nothing."""
    nothing = ProcessCpu(0.0, 0.0)
    own = sum(now.own - before.get(key, nothing).own for key, now in after.items())
    ended = sum(now.ended - before.get(key, nothing).ended for key, now in after.items())
    gone = sum(then.own + then.ended for key, then in before.items() if key not in after)
    return own + max(ended - gone, 0.0)


def timed(work: Callable[[], object]) -> Figures:
    """What one run costs."""
    before, wall = cpu_by_process(), time.perf_counter()
    work()
    wall_s = time.perf_counter() - wall
    return {"wall_s": wall_s, "cpu_s": cpu_seconds_between(before, cpu_by_process())}


def least(runs: list[Figures]) -> Figures:
    """The least of each figure: whatever else the machine did, it only added."""
    return {key: min(run[key] for run in runs) for key in runs[0]}
