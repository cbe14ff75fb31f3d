"""The table of the benchmark of REST catalogs: ratios of CPU times, also of runs that were too short for one."""

import io

from rich.console import Console

from tests.benchmarks.iceberg_rest import JAVA, SQLITE, MeasuredServer, shown

KEY = ("create", 8)


def server(name: str, cpu_ms: float) -> MeasuredServer:
    """Return a server with the figures of one operation."""
    figures = {KEY: {"rate": 100.0, "cpu_ms": cpu_ms, "p99_ms": 5.0}}
    return MeasuredServer(name=name, address="", processes=[], clients=[], figures=figures)


def text_of(*servers: MeasuredServer) -> str:
    """Return the table of servers as a text."""
    written = io.StringIO()
    Console(file=written, width=200).print(shown(servers))
    return written.getvalue()


def test_the_table_has_the_ratio_of_cpu_times() -> None:
    assert "3.0x" in text_of(server(JAVA, 6.0), server(SQLITE, 2.0))


def test_a_run_that_is_too_short_for_cpu_time_has_a_table_without_a_ratio() -> None:
    assert "too short" in text_of(server(JAVA, 6.0), server(SQLITE, 0.0))
