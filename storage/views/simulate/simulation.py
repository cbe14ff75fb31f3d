"""The result of a simulation: a step for each commit, every compaction, the three amplifications, and pictures.

Write amplification: bytes written by flushes and compactions, for each byte of the rows that were written. Read
amplification: sorted runs in which an existing key must be searched. Space amplification: bytes of all files, for each
byte of live rows.

The picture of a single simulation also shows the output of each compaction. Sorted runs and read amplification jump
with every compaction, so their lines are moving averages, above pale lines of each commit.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from io import StringIO
from itertools import pairwise
from os import PathLike
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable

from interbed.storage.lsm.compact.strategy import PickReason
from interbed.storage.views.figure import COLORS, MUTED, light_grid, new_figure, save_figure, style
from interbed.storage.views.simulate.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationStep:
    """The bucket after a commit and its compaction. Sizes in bytes; given, flushed and compacted bytes are cumulative.

    `waited` is whether the writer had more sorted runs than the stop trigger allows.
    """

    commit: int
    runs: int
    files: int
    total_bytes: int
    live_bytes: int
    given_bytes: int
    flushed_bytes: int
    compacted_bytes: int
    read_amplification: float
    waited: bool

    @property
    def write_amplification(self) -> float:
        """The bytes written so far for each byte given."""
        return (self.flushed_bytes + self.compacted_bytes) / self.given_bytes

    @property
    def space_amplification(self) -> float:
        """The bytes of files for each byte of live rows; 1 for an empty bucket."""
        if not self.live_bytes:
            return 1.0 if not self.total_bytes else float("inf")
        return self.total_bytes / self.live_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCompaction:
    """One compaction: its commit, its reason and its cost. Sizes in bytes."""

    commit: int
    reason: PickReason
    detail: str
    output_level: int
    runs_merged: int
    runs_left: int
    files_rewritten: int
    files_moved: int
    bytes_read: int
    bytes_written: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One quantity over the commits."""

    name: str
    values: tuple[float, ...]

    @property
    def last(self) -> float:
        """The value after the last commit."""
        return self.values[-1]

    @property
    def mean(self) -> float:
        """The mean over the commits."""
        return fmean(self.values)

    @property
    def highest(self) -> float:
        """The greatest value of the curve."""
        return max(self.values)


_BLOCKS = "▁▂▃▄▅▆▇█"
_CURVE_WIDTH = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The result of `simulate`; `label` distinguishes several simulations."""

    label: str
    workload: Workload
    options: dict[str, str]
    compact_every: int
    compaction_trigger: int
    stop_trigger: int
    steps: tuple[SimulationStep, ...]
    compactions: tuple[SimulatedCompaction, ...]

    @property
    def curves(self) -> tuple[Curve, ...]:
        """The curves of sorted runs and of the amplifications."""
        return (
            Curve(name="sorted runs", values=tuple(float(s.runs) for s in self.steps)),
            Curve(name="write amplification", values=tuple(s.write_amplification for s in self.steps)),
            Curve(name="read amplification", values=tuple(s.read_amplification for s in self.steps)),
            Curve(name="space amplification", values=tuple(s.space_amplification for s in self.steps)),
        )

    @property
    def waits(self) -> int:
        """The number of commits in which the writer waited."""
        return sum(s.waited for s in self.steps)

    def to_json(self) -> dict[str, Any]:
        """Return the simulation as a JSON object."""
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
        """Draw the simulation to an SVG, PNG or PDF file; see plot_simulations."""
        plot_simulations([self], path)

    def __str__(self) -> str:
        return _rendered(_views(self))


def plot_simulations(simulations: Sequence[Simulation], path: str | PathLike[str]) -> None:
    """Draw simulations, one line each, to an SVG, PNG or PDF file.

    Raises NotSupportedError without matplotlib (the extra `plot`), InvalidInputError for another kind of file,
    StorageAccessError if the file can't be written.
    """
    triggers = {
        "compaction trigger": {s.compaction_trigger for s in simulations},
        "stop trigger": {s.stop_trigger for s in simulations},
    }
    draw_simulations(
        f"Universal compaction: {_workload_text(simulations[0])}",
        [(s.label, s.curves) for s in simulations],
        {name: min(runs) for name, runs in triggers.items() if len(runs) == 1},
        simulations[0].compactions if len(simulations) == 1 else (),
        path,
    )


def compared(simulations: Sequence[Simulation]) -> str:
    """Return a table that compares simulations, as text."""
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


def _workload_text(simulation: Simulation) -> str:
    """Return the workload in one line."""
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
    """Return the curve as a row of blocks, each the mean of several commits."""
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
    """Return None for infinity, which JSON does not have."""
    return value if value < float("inf") else None


if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PANELS = {
    "sorted runs": "in the bucket",
    "write amplification": "bytes written for each byte given",
    "read amplification": "sorted runs in which a key is looked for",
    "space amplification": "bytes of files for each byte of live rows",
}
_STEPPED = ("sorted runs", "read amplification")
_COMPACTIONS = "compactions"
_SMOOTHED_PART = 25
"""Curves of quantities that jump show means over 1/N of the commits; this is N."""
_LABEL_POINTS = 9
_PANEL_POINTS = 170


def draw_simulations(
    title: str,
    simulations: Sequence[tuple[str, Sequence[Curve]]],
    triggers: Mapping[str, int],
    compactions: Sequence[SimulatedCompaction],
    path: str | PathLike[str],
) -> None:
    """Draw the labelled curves of simulations, triggers (numbers of runs) as lines, and compactions if there are any.

    Raises what plot_simulations raises.
    """
    names = list(_PANELS)
    mosaic: Any = [names[:2], names[2:]]
    if compactions:
        mosaic.append([_COMPACTIONS] * 2)
    figure = new_figure(path, 11, 8.5 if compactions else 6.8)
    with style():
        panels: dict[str, Axes] = figure.subplot_mosaic(mosaic, sharex=True)
        for index, name in enumerate(names):
            _draw_curves(panels[name], name, [(label, curves[index].values) for label, curves in simulations])
        _draw_triggers(panels["sorted runs"], triggers)
        for name in names[2:]:
            panels[name].tick_params(labelbottom=True)
            panels[name].set_xlabel("commits")
        if compactions:
            _draw_compactions(panels[_COMPACTIONS], compactions)
        if len(simulations) > 1:
            handles, labels = panels["sorted runs"].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower left", ncols=4)
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        save_figure(figure, path)


def _draw_curves(axes: "Axes", name: str, curves: Sequence[tuple[str, Sequence[float]]]) -> None:
    ends = []
    for (label, values), color in zip(curves, COLORS * len(curves), strict=False):
        commits = range(1, len(values) + 1)
        line = np.asarray(values, np.float64)
        if name in _STEPPED:
            axes.plot(commits, values, color=color, alpha=0.25, linewidth=0.8, drawstyle="steps-post")
            line = _smoothed(line)
        axes.plot(commits, line, color=color, linewidth=1.8, label=label or None)
        ends.append((float(line[-1]), color))
    axes.set_title(name)
    axes.set_ylabel(_PANELS[name], color=MUTED, fontsize=8)
    axes.set_ylim(bottom=1 if name == "space amplification" else 0)
    axes.set_xlim(left=0)
    light_grid(axes)
    low, high = axes.get_ylim()
    # Labels of lines that end close together are moved apart, upward.
    lowest = float("-inf")
    for value, color in sorted(ends):
        place = (value - low) / (high - low) * _PANEL_POINTS
        shown = max(place, lowest + _LABEL_POINTS)
        lowest = shown
        axes.annotate(
            f"{value:.1f}" if name != "space amplification" else f"{value:.2f}",
            (len(curves[0][1]), value),
            xytext=(5, shown - place),
            textcoords="offset points",
            va="center",
            color=color,
            fontsize=8,
            annotation_clip=False,
        )


def _draw_triggers(axes: "Axes", triggers: Mapping[str, int]) -> None:
    for what, line in triggers.items():
        axes.set_ylim(top=max(axes.get_ylim()[1], line + 1))
        axes.axhline(line, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
        axes.annotate(
            what,
            (1, line),
            xycoords=("axes fraction", "data"),
            xytext=(-3, 2),
            textcoords="offset points",
            ha="right",
            color=MUTED,
            fontsize=8,
        )


def _draw_compactions(axes: "Axes", compactions: Sequence[SimulatedCompaction]) -> None:
    """Draw the bytes that each compaction wrote, by its reason."""
    reasons = [r for r in PickReason if any(c.reason is r for c in compactions)]
    for reason, color in zip(reasons, (COLORS[1:] + COLORS[:1]) * 2, strict=False):
        those = [c for c in compactions if c.reason is reason]
        sizes = [c.bytes_written / (1 << 20) for c in those]
        label = f"{reason.value}: {len(those)}, {sum(sizes):,.0f} MiB"
        axes.vlines([c.commit for c in those], 0, sizes, color=color, linewidth=1.8, label=label)
    axes.set_title(_COMPACTIONS)
    axes.set_ylabel("MiB written by each", color=MUTED, fontsize=8)
    axes.set_xlabel("commits")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", fontsize=8)
    light_grid(axes)


def _smoothed(values: "np.typing.NDArray[np.float64]") -> "np.typing.NDArray[np.float64]":
    """Return the moving average over the values."""
    width = max(1, len(values) // _SMOOTHED_PART)
    sums = np.concatenate([np.zeros(1), np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - width, 0)
    means: np.typing.NDArray[np.float64] = (sums[ends] - sums[starts]) / (ends - starts)
    return means
