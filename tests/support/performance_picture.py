"""Picture of docs/performance.md: the cost of a table by its number of rows and of commits."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interbed.storage.views.figure import COLORS, light_grid, new_figure, save_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 9.0, 4.2
STAGES = ("base write", "compaction", "full scan", "full scan after it")
LINES = {
    ("commit", "interbed"): "-o",
    ("commit", "interbed, compacting"): "-s",
    ("commit", "pypaimon-rust"): "-^",
    ("plan", "interbed"): ":o",
    ("plan", "interbed, compacting"): ":s",
    ("plan", "pypaimon-rust"): ":^",
}


def draw_costs(runs: Sequence[Mapping[str, Any]], path: Path) -> bool:
    """Draw the newest figures of the runs, oldest first. Return False and draw nothing if one of the two is missing."""
    scale = next((run["scale"] for run in reversed(runs) if run.get("scale")), None)
    commits = next((run["commits"] for run in reversed(runs) if run.get("commits")), None)
    if scale is None or commits is None:
        return False
    with style():
        figure = new_figure(path, WIDTH, HEIGHT)
        rows, often = figure.subplots(1, 2)
        _draw_rows(rows, scale)
        _draw_commits(often, commits)
        save_figure(figure, path)
    return True


def _draw_rows(axes: "Axes", scale: Mapping[str, Mapping[str, Any]]) -> None:
    for color, stage in zip(COLORS, STAGES, strict=False):
        sizes = sorted(map(int, scale[stage]))
        costs = [scale[stage][str(n)]["cpu_s"] / (scale[stage][str(n)]["rows"] / 1e6) for n in sizes]
        axes.plot([n / 1e6 for n in sizes], costs, "-o", color=color, label=stage, markersize=3)
    _finish(axes, "CPU seconds for a million rows", "millions of rows")


def _draw_commits(axes: "Axes", commits: Mapping[str, Mapping[str, Any]]) -> None:
    engines = list(dict.fromkeys(engine for _, engine in LINES))
    for (what, engine), line in LINES.items():
        found = {_count(name): by[engine] for name, by in commits.items() if name.startswith(what) and engine in by}
        counts = sorted(found)
        milliseconds = [found[n]["cpu_s"] * 1000 for n in counts]
        color = COLORS[engines.index(engine)]
        axes.plot(counts, milliseconds, line, color=color, label=f"{what}, {engine}", markersize=3)
    axes.set_yscale("log")
    _finish(axes, "CPU milliseconds of a commit or a plan", "commits before it")


def _count(name: str) -> int:
    return int(name.rpartition(" ")[2].replace(",", ""))


def _finish(axes: "Axes", title: str, below: str) -> None:
    axes.set_xscale("log")
    axes.set_title(title)
    axes.set_xlabel(below)
    if axes.get_yscale() == "linear":
        axes.set_ylim(bottom=0)
    light_grid(axes)
    # Below the lines, so that it does not hide them.
    axes.legend(fontsize=7, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.18))
