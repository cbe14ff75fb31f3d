"""Processes of tests that coverage does not measure: those whose modules, files or limits are what is tested.

Coverage imports modules of its own into each process that it measures, and writes a file at its end.
"""

import os

MEASURED_BY = ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START")
"""Variables by which a process starts to measure itself."""


def unmeasured_environment() -> dict[str, str]:
    """Return the environment of this process without coverage."""
    return {name: value for name, value in os.environ.items() if name not in MEASURED_BY}
