"""The picture of one or more runs over time: rounds, lag, sorted runs to merge, and maintenance."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interbed.storage.views.figure import COLORS, light_grid, new_figure, save_figure, style
from tests.benchmarks.ch.figures import most_runs, total

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 9.0, 6.0
_NAMES = {
    "on": "interbed, with the optimizer",
    "off": "interbed, not compacted",
    "writer": "interbed, compacted by the writer",
    "iceberg-v2": "Iceberg v2",
    "iceberg-v3": "Iceberg v3",
    "iceberg-v2-rewrites": "Iceberg v2, rewritten",
    "iceberg-v3-rewrites": "Iceberg v3, rewritten",
}

Series = Sequence[tuple[float, float]]


def draw(runs: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Draw the series of `figures.over_time` of several runs, by contender."""
    with style():
        figure = new_figure(path, WIDTH, HEIGHT)
        [[rounds, lags], [merged, spent]] = figure.subplots(2, 2)
        _panel(rounds, "Seconds of a round of 22 queries", runs, lambda run: run["rounds"])
        _panel(lags, "Seconds that queries are behind PostgreSQL", runs, lambda run: run["lags"])
        _panel(
            merged,
            "Most sorted runs of a bucket (Iceberg: deletion files)",
            runs,
            lambda run: [(at, most_runs(shape) or total(shape, "delete_files")) for at, shape in run["shapes"]],
        )
        _panel(
            spent,
            "CPU seconds of maintenance",
            runs,
            lambda run: [(at, cpu.get("optimizer", 0.0)) for at, cpu in run["cpu"]],
        )
        handles, labels = rounds.get_legend_handles_labels()
        # One legend below all panels, because it is the same for all.
        figure.legend(handles, labels, fontsize=8, ncols=3, loc="outside lower center")
        save_figure(figure, path)


def _panel(
    axes: "Axes",
    title: str,
    runs: Mapping[str, Mapping[str, Any]],
    series: Callable[[Mapping[str, Any]], Series],
) -> None:
    for color, (name, run) in zip(COLORS, runs.items(), strict=False):
        points = series(run)
        axes.plot(
            [at / 60 for at, _ in points],
            [value for _, value in points],
            "-o" if len(points) < 40 else "-",
            color=color,
            label=_NAMES.get(name, name),
            markersize=2.5,
            linewidth=1.2,
        )
    axes.set_title(title)
    axes.set_xlabel("minutes")
    axes.set_ylim(bottom=0)
    light_grid(axes)
