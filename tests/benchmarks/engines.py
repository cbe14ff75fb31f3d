"""Comparison of the figures of interbed and pypaimon-rust."""

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from tests.benchmarks.run_stage import Figures


def ratio_text(peer: Figures, ours: Figures) -> str:
    """Return the ratio of the peer's CPU seconds to ours, and the same of wall seconds."""
    return f"{peer['cpu_s'] / ours['cpu_s']:.2f} ({peer['wall_s'] / ours['wall_s']:.2f})"


def show_pair(
    title: str, found: Mapping[str, Mapping[str, Figures]], goals: Mapping[str, float], console: Console
) -> None:
    """Print figures of interbed and pypaimon-rust by stage, in milliseconds of CPU (and of the clock)."""
    view = Table(title=f"{title}: CPU ms (wall ms); ratios are peer / interbed, CPU (wall)", title_justify="left")
    view.add_column("stage")
    for column in ("interbed", "pypaimon-rust", "ratio", "goal", "rows"):
        view.add_column(column, justify="right")
    for name, by_engine in found.items():
        ours, peer = by_engine["interbed"], by_engine.get("pypaimon-rust")
        cells = ["–" if f is None else f"{f['cpu_s'] * 1000:,.2f} ({f['wall_s'] * 1000:,.2f})" for f in (ours, peer)]
        goal = f"{goals[name]:.1f}" if name in goals else ""
        view.add_row(name, *cells, "–" if peer is None else ratio_text(peer, ours), goal, f"{ours['rows']:,}")
    console.print(view)
