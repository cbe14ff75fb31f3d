"""What work in a Spark session costs: CPU seconds of the driver, its JVM and the Python workers, and wall seconds."""

import time
from collections.abc import Callable

import psutil

Figures = dict[str, float]


def cpu_seconds() -> float:
    """CPU seconds of this process and all below it; ended ones are counted by their parents."""
    me = psutil.Process()
    total = 0.0
    for process in [me, *me.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def timed(work: Callable[[], object]) -> Figures:
    """What one run costs."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    work()
    return {"wall_s": time.perf_counter() - wall, "cpu_s": cpu_seconds() - cpu}


def least(runs: list[Figures]) -> Figures:
    """The least of each figure: whatever else the machine did, it only added."""
    return {key: min(run[key] for run in runs) for key in runs[0]}
