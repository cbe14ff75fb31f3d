"""The process that forks workers: it has loaded what they need, and nothing that runs."""

import subprocess
import sys

PROGRAM = """
import os, sys
from interbed.spark_ext import daemon
daemon.preload()
print("interbed.spark_ext.planner" in sys.modules, "interbed.spark_ext.reader" in sys.modules, "pandas" in sys.modules)
print(*(open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")))
import pandas
"""


def test_workers_are_forked_with_their_modules_and_without_threads() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True)

    loaded, threads = done.stdout.splitlines()
    assert loaded == "True True False"
    # jemalloc's own thread knows of forks.
    assert set(threads.split()[1:]) <= {"jemalloc_bg_thd"}
