"""What a simulation saw: a step for each commit, every compaction, and the three amplifications.

Write amplification: bytes written by flushes and compactions, for each byte of the rows that were given. Read
amplification: sorted runs in which a key that there is has to be looked for. Space amplification: bytes of all files,
for each byte of live rows.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from io import StringIO
from itertools import pairwise
from os import PathLike
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from interbed.storage.views.simulate.picture import draw_simulations
from interbed.storage.views.simulate.steps import Curve, SimulatedCompaction, Step
from interbed.storage.views.simulate.workload import Workload

_BLOCKS = "▁▂▃▄▅▆▇█"
_CURVE_WIDTH = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The outcome of `simulate`; `label` distinguishes several ones."""

    label: str
    workload: Workload
    options: dict[str, str]
    compact_every: int
    compaction_trigger: int
    stop_trigger: int
    steps: tuple[Step, ...]
    compactions: tuple[SimulatedCompaction, ...]

    @property
    def curves(self) -> tuple[Curve, ...]:
        """Sorted runs and the amplifications."""
        return (
            Curve(name="sorted runs", values=tuple(float(s.runs) for s in self.steps)),
            Curve(name="write amplification", values=tuple(s.write_amplification for s in self.steps)),
            Curve(name="read amplification", values=tuple(s.read_amplification for s in self.steps)),
            Curve(name="space amplification", values=tuple(s.space_amplification for s in self.steps)),
        )

    @property
    def waits(self) -> int:
        """Commits in which the writer waited."""
        return sum(s.waited for s in self.steps)

    def to_json(self) -> dict[str, Any]:
        """Everything as a JSON object."""
        return {
            "label": self.label,
            "workload": asdict(self.workload),
            "options": self.options,
            "compactEvery": self.compact_every,
            "compactionTrigger": self.compaction_trigger,
            "stopTrigger": self.stop_trigger,
            "waits": self.waits,
            "summary": {
                curve.name: {"last": _finite(curve.last), "mean": _finite(curve.mean), "max": _finite(curve.highest)}
                for curve in self.curves
            },
            "steps": [
                asdict(s) | {"write_amplification": s.write_amplification, "space_amplification": _finite(space)}
                for s in self.steps
                for space in [s.space_amplification]
            ],
            "compactions": [asdict(c) for c in self.compactions],
        }

    def plot(self, path: str | PathLike[str]) -> None:
        """Draw it to an SVG, PNG or PDF file; see plot_simulations."""
        plot_simulations([self], path)

    def __str__(self) -> str:
        return _rendered(_views(self))


def plot_simulations(simulations: Sequence[Simulation], path: str | PathLike[str]) -> None:
    """Draw simulations, one line each, to an SVG, PNG or PDF file.

    Raises NotSupportedError without matplotlib (the extra `plot`), InvalidInputError for another kind of file,
    StorageAccessError when the file can't be written.
    """
    triggers = {
        "compaction trigger": {s.compaction_trigger for s in simulations},
        "stop trigger": {s.stop_trigger for s in simulations},
    }
    draw_simulations(
        f"Universal compaction: {_told(simulations[0])}",
        [(s.label, s.curves) for s in simulations],
        {name: min(runs) for name, runs in triggers.items() if len(runs) == 1},
        simulations[0].compactions if len(simulations) == 1 else (),
        path,
    )


def compared(simulations: Sequence[Simulation]) -> str:
    """Several simulations beside each other, for people."""
    table = RichTable(title="at the end; in brackets the mean over the commits", title_justify="left")
    table.add_column("")
    for simulation in simulations:
        table.add_column(simulation.label, justify="right")
    for rows in zip(*(s.curves for s in simulations), strict=True):
        table.add_row(rows[0].name, *(f"{c.last:.2f} ({c.mean:.2f})" for c in rows))
    table.add_row("compactions", *(str(len(s.compactions)) for s in simulations))
    table.add_row("MiB compacted", *(f"{s.steps[-1].compacted_bytes / (1 << 20):,.0f}" for s in simulations))
    table.add_row("commits that waited", *(str(s.waits) for s in simulations))
    return _rendered([table])


def _told(simulation: Simulation) -> str:
    """The workload in a line."""
    w = simulation.workload
    parts = [f"{w.commits:,} commits of {w.rows:,} rows of {w.row_bytes:,} bytes", f"{w.update_ratio:.0%} updates"]
    if w.delete_ratio:
        parts.append(f"{w.delete_ratio:.0%} deletes")
    parts += [f"{w.distribution.value} keys", f"{w.insert_order.value} inserts"]
    if simulation.compact_every > 1:
        parts.append(f"compaction each {simulation.compact_every} commits")
    return ", ".join(parts)


def _views(simulation: Simulation) -> list[RichTable]:
    last = simulation.steps[-1]
    size = f"{last.total_bytes / (1 << 20):,.1f} MiB in {last.files} file(s)"
    title = f"{last.commit} commits, {size}, {last.live_bytes / (1 << 20):,.1f} MiB of live rows"
    summary = RichTable(title=title, title_justify="left")
    summary.add_column("")
    for name in ("end", "mean", "max"):
        summary.add_column(name, justify="right")
    summary.add_column("over the commits, from 0 to max", min_width=_CURVE_WIDTH, no_wrap=True)
    for curve in simulation.curves:
        figures = (f"{value:.2f}" for value in (curve.last, curve.mean, curve.highest))
        summary.add_row(curve.name, *figures, _sparkline(curve.values))
    compactions = RichTable(
        title=f"{len(simulation.compactions)} compactions; the writer waited at {simulation.waits} commit(s)",
        title_justify="left",
    )
    for name in ("reason", "compactions", "runs merged", "files rewritten", "files moved", "MiB written"):
        compactions.add_column(name, justify="left" if name == "reason" else "right")
    for reason, count in Counter(c.reason for c in simulation.compactions).most_common():
        those = [c for c in simulation.compactions if c.reason is reason]
        compactions.add_row(
            reason.value,
            str(count),
            str(sum(c.runs_merged for c in those)),
            str(sum(c.files_rewritten for c in those)),
            str(sum(c.files_moved for c in those)),
            f"{sum(c.bytes_written for c in those) / (1 << 20):,.1f}",
        )
    return [summary, compactions]


def _sparkline(values: Sequence[float]) -> str:
    """The curve as a row of blocks, each the mean of a stretch of commits."""
    width = min(_CURVE_WIDTH, len(values))
    edges = [len(values) * i // width for i in range(width + 1)]
    means = [fmean(values[a:b]) for a, b in pairwise(edges)]
    top = max(means)
    if not 0 < top < float("inf"):
        return _BLOCKS[0] * width
    return "".join(_BLOCKS[round(value / top * (len(_BLOCKS) - 1))] for value in means)


def _rendered(views: Sequence[RichTable]) -> str:
    target = StringIO()
    console = Console(file=target, width=120, color_system=None)
    for view in views:
        console.print(view)
    return target.getvalue().rstrip()


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if value < float("inf") else None
