"""The process that forks workers: it has loaded what they need, and nothing that runs."""

import subprocess
import sys

PROGRAM = """
import os, sys
from interbed.spark_ext.process import daemon
daemon.preload()
ours = ("interbed.spark_ext.process.planner", "interbed.spark_ext.read.reader")
print(*(name in sys.modules for name in (*ours, "pandas")))
print(*(open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")))
import pandas
"""


def test_workers_are_forked_with_their_modules_and_without_threads() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True)

    loaded, threads = done.stdout.splitlines()
    assert loaded == "True True False"
    # jemalloc's own thread knows of forks.
    assert set(threads.split()[1:]) <= {"jemalloc_bg_thd"}
