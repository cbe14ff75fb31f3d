"""Simulations as a picture: sorted runs and the three amplifications over the commits, a line each.

One simulation also shows what each of its compactions wrote. Sorted runs and read amplification go up and down with
every compaction, so that their lines are means over a stretch of commits, on top of the pale figures of each commit.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from interbed.storage.lsm.compact.strategy import PickReason
from interbed.storage.views.figure import COLORS, MUTED, light_grid, new_figure, save_figure, style
from interbed.storage.views.simulate.steps import Curve, SimulatedCompaction

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
"""Lines of quantities that jump are means over this part of the commits."""
_LABEL_POINTS = 9
_PANEL_POINTS = 170


def draw_simulations(
    title: str,
    simulations: Sequence[tuple[str, Sequence[Curve]]],
    triggers: Mapping[str, int],
    compactions: Sequence[SimulatedCompaction],
    path: str | PathLike[str],
) -> None:
    """Draw the curves of simulations, each with its label (or none), numbers of runs as lines, and the compactions of
    one if there are any. Raises as plot_simulations does.
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
    # Labels of lines that end close together are pushed apart, upward.
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
    """What each compaction wrote, by its reason."""
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
    """The mean of each value and those just before it."""
    width = max(1, len(values) // _SMOOTHED_PART)
    sums = np.concatenate([np.zeros(1), np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - width, 0)
    means: np.typing.NDArray[np.float64] = (sums[ends] - sums[starts]) / (ends - starts)
    return means
