"""LSM trees drawn: in the terminal, and as a picture with the sizes of the runs and the triggers of compaction.

The terminal has a line for each sorted run, newest first, with its files along the axis of keys:

bucket 0   111 records, 11.8 KiB
sorted runs ■■□□│□□□□┃ 2, in shape (compaction from 5, writers wait above 8)
 level   records      size     age  id: 1 … 99
     0        12   2.1 KiB     3 s       ██████████
     5        99   9.7 KiB   5 min  ███████████▒▒▒▒▒▒▒▒▒▒████████
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from interbed.storage.base.shown_text import age_text, escaped, size_text
from interbed.storage.views.figure import GRID, INK, MUTED, new_figure, save_figure, style
from interbed.storage.views.levels.tree import BucketTree, TreeRun

BUCKETS_DRAWN = 8
"""Buckets that are drawn unless all are asked for: those with the most sorted runs."""

_FIGURES_WIDTH = 40
_LEAST_BAR = 20
_GREATEST_BAR = 100
_FILLS = "█▒"
"""Files that lie side by side in a run are distinguished by these."""
_LEVEL_STYLES = ("cyan", "blue", "magenta", "green", "yellow")


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsDrawing:
    """Trees to be printed by rich; `now_millis` is local time without zone, `left_out` the buckets not drawn."""

    title: str
    trees: tuple[BucketTree, ...]
    now_millis: int
    left_out: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """See rich."""
        width = min(_GREATEST_BAR, max(_LEAST_BAR, options.max_width - _FIGURES_WIDTH))
        yield Text(escaped(self.title), style="bold")
        for tree in self.trees:
            yield Text()
            yield _heading(tree)
            yield _columns(tree, width)
            for run in tree.runs:
                yield _line(run, tree, self.now_millis, width)
        if self.left_out:
            yield Text()
            yield Text(f"{self.left_out} more bucket(s) with no more sorted runs than these.", style="dim")


def most_runs(trees: Sequence[BucketTree], count: int) -> tuple[BucketTree, ...]:
    """The trees with the most sorted runs, in their order."""
    chosen = sorted(range(len(trees)), key=lambda i: -len(trees[i].runs))[:count]
    return tuple(trees[i] for i in sorted(chosen))


def _heading(tree: BucketTree) -> Text:
    styles = {"in shape": "green", "writers wait": "bold red"}
    style = styles.get(tree.state, "yellow")
    return Text.assemble(
        (escaped(tree.name), "bold"),
        f"   {tree.rows:,} records, {size_text(tree.bytes)}\n",
        "sorted runs ",
        (f"{tree.gauge} {len(tree.runs)}, {tree.state}", style),
        (f" (compaction from {tree.compaction_trigger}, writers wait above {tree.stop_trigger})", "dim"),
    )


def _columns(tree: BucketTree, width: int) -> Text:
    least, greatest = escaped(f"{tree.keys}: {tree.least_key}"), escaped(tree.greatest_key)
    space = width - len(least) - len(greatest)
    ends = f"{least}{' ' * space}{greatest}" if space > 0 else f"{least} … {greatest}"
    return Text(f"{'level':>6}{'records':>12}{'size':>11}{'age':>9}  {ends}", style="dim", no_wrap=True)


def _line(run: TreeRun, tree: BucketTree, now_millis: int, width: int) -> Text:
    age = age_text(now_millis - run.created_millis)
    style = _LEVEL_STYLES[min(run.level, len(_LEVEL_STYLES) - 1)]
    text = Text(f"{run.level:>6}{run.rows:>12,}{size_text(run.bytes):>11}{age:>9}  ", no_wrap=True)
    return text.append(_bar(run, width), style)


def _bar(run: TreeRun, width: int) -> str:
    """The files of a run; each has a character at least, later ones give way to earlier ones."""
    cells = [" "] * width
    for index, file in enumerate(run.files):
        first = min(int(file.start * width), width - 1)
        last = max(first, min(round(file.end * width) - 1, width - 1))
        for cell in range(first, last + 1):
            cells[cell] = _FILLS[index % len(_FILLS)]
    return "".join(cells).rstrip()


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

BUCKETS_PICTURED = 12
"""Buckets in one picture: those with the most sorted runs."""

_BLUES = ("#93c5fd", "#60a5fa", "#3b82f6", "#2563eb", "#1d4ed8", "#1e3a8a")
"""From level 0, the newest and lightest, to the highest."""
_STATE_COLORS = {"in shape": "#059669", "compaction due": "#d97706", "writers wait": "#dc2626"}
_ROW_INCHES = 0.3
_LEAST_WIDTH = 0.004


def draw_trees(title: str, trees: Sequence[BucketTree], now_millis: int, path: str | PathLike[str]) -> None:
    """Draw the trees to an SVG, PNG or PDF file; see TableLevels.plot."""
    chosen = most_runs(trees, BUCKETS_PICTURED)
    columns = 1 if len(chosen) <= 1 else 2
    rows = max(1, math.ceil(len(chosen) / columns))
    most = [max((len(t.runs) for t in chosen[i * columns : (i + 1) * columns]), default=1) for i in range(rows)]
    heights = [1.25 + _ROW_INCHES * count for count in most]
    figure = new_figure(path, 9 if columns == 1 else 15, 0.5 + sum(heights))
    with style():
        left_out = len(trees) - len(chosen)
        more = f"  ({left_out} more buckets with no more sorted runs)" if left_out else ""
        figure.suptitle(f"{title}{more}", x=0.01, ha="left", fontsize=12, fontweight="bold")
        if chosen:
            parts = figure.subfigures(rows, columns, height_ratios=heights, squeeze=False)
            for index, tree in enumerate(chosen):
                row, column = divmod(index, columns)
                _draw_tree(parts[row][column], tree, now_millis, rows=most[row])
        save_figure(figure, path)


def _draw_tree(part: "SubFigure", tree: BucketTree, now_millis: int, *, rows: int) -> None:
    keys, sizes = part.subplots(1, 2, width_ratios=(5, 3.4))
    largest = max(run.bytes for run in tree.runs)
    for row, run in enumerate(tree.runs):
        color = _BLUES[round(run.level / max(1, tree.max_level) * (len(_BLUES) - 1))]
        for file in run.files:
            width = max(file.end - file.start, _LEAST_WIDTH)
            start = min(file.start, 1 - width)
            keys.barh(row, width, left=start, height=0.68, color=color, edgecolor="white", linewidth=1)
        sizes.barh(row, run.bytes, height=0.68, color=color)
        files = f" · {len(run.files)} files" if len(run.files) > 1 else ""
        age = age_text(now_millis - run.created_millis)
        figures = sizes.annotate(
            f"{size_text(run.bytes)} · {run.rows:,} rows{files} · {age}",
            (run.bytes, row),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
            color=INK,
            annotation_clip=False,
        )
        # Else the longest text would decide on the widths of this part.
        figures.set_in_layout(False)
    _frame(keys, tree, rows)
    keys.set_xlim(0, 1)
    keys.set_xticks([0, 1], [tree.least_key, tree.greatest_key], color=MUTED, fontsize=8)
    for label, side in zip(keys.get_xticklabels(), ("left", "right"), strict=True):
        label.set_horizontalalignment(side)
    keys.set_xlabel(f"keys ({tree.keys})", color=MUTED, fontsize=8, labelpad=-8)
    _headline(keys, tree.name, f"{tree.rows:,} records, {size_text(tree.bytes)}", (INK, MUTED))
    _frame(sizes, tree, rows)
    sizes.set_yticks([])
    # More than half of the width is for the figures behind the bars.
    sizes.set_xlim(0, largest * 5)
    sizes.set_xticks([])
    color = _STATE_COLORS[tree.state]
    runs = f"{len(tree.runs)} sorted run{'' if len(tree.runs) == 1 else 's'}"
    _headline(sizes, f"{runs}, {tree.state}", tree.gauge, (color, color))


def _frame(axes: "Axes", tree: BucketTree, rows: int) -> None:
    """A line for each run, newest on top, and lines between the levels."""
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_yticks(range(len(tree.runs)), _level_names(tree), color=INK, fontsize=8)
    axes.tick_params(length=0)
    for side in ("top", "right", "bottom", "left"):
        axes.spines[side].set_visible(False)
    for row in range(1, len(tree.runs)):
        if tree.runs[row].level != tree.runs[row - 1].level:
            axes.axhline(row - 0.5, color=GRID, linewidth=1, zorder=0)


def _level_names(tree: BucketTree) -> list[str]:
    """A name for the first run of each level."""
    levels = [run.level for run in tree.runs]
    return [f"level {level}" if level not in levels[:row] else "" for row, level in enumerate(levels)]


def _headline(axes: "Axes", first: str, second: str, colors: tuple[str, str]) -> None:
    """Two lines in the place of a title."""
    axes.set_title(first, color=colors[0], fontsize=10, pad=21)
    axes.annotate(
        second, (0, 1), xycoords="axes fraction", xytext=(0, 6), textcoords="offset points", color=colors[1], fontsize=9
    )
