"""LSM trees as drawings: every sorted run of a bucket with its files along an axis of keys.

A tree is drawn in the terminal, or as a picture with the sizes of the runs and the triggers of compaction. If the key
is one number, date or timestamp, the axis is to scale. Otherwise the keys that bound files are laid out in their order,
at equal distances. The terminal has a line for each sorted run, newest first:

    bucket 0   111 records, 11.8 KiB
    sorted runs ■■□□│□□□□┃ 2, in shape (compaction from 5, writers wait above 8)
     level   records      size     age  id: 1 … 99
         0        12   2.1 KiB     3 s       ██████████
         5        99   9.7 KiB   5 min  ███████████▒▒▒▒▒▒▒▒▒▒████████
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from interbed.storage.base.arrow_values import to_numpy
from interbed.storage.base.row.binary_row import decode_rows
from interbed.storage.base.row.python_values import python_values
from interbed.storage.base.shown_text import age_text, escaped, size_text
from interbed.storage.base.types.data_type import DataType
from interbed.storage.lsm.levels import Levels, key_ranks
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.views.figure import GRID, INK, MUTED, new_figure, save_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure


_KEY_TEXT_LENGTH = 32
_GAUGE_MAX = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFile:
    """A file of a tree: its size in bytes, its range of keys as text and from 0 to 1 along the axis, its creation time.

    `created_millis` is local time without zone, as files record it. `deletes` is None if the file does not record it.
    """

    name: str
    bytes: int
    rows: int
    deletes: int | None
    least_key: str
    greatest_key: str
    start: float
    end: float
    created_millis: int

    def to_json(self) -> dict[str, Any]:
        """Return the file as a JSON object, without its place on the axis."""
        created = datetime.fromtimestamp(self.created_millis / 1000, UTC).replace(tzinfo=None)
        return {
            "name": self.name,
            "bytes": self.bytes,
            "rows": self.rows,
            "deletes": self.deletes,
            "minKey": self.least_key,
            "maxKey": self.greatest_key,
            "created": created.isoformat(timespec="milliseconds"),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRun:
    """A sorted run of a tree: files in key order."""

    level: int
    files: tuple[TreeFile, ...]

    @property
    def bytes(self) -> int:
        """The size of the files in bytes."""
        return sum(f.bytes for f in self.files)

    @property
    def rows(self) -> int:
        """The number of records in the files."""
        return sum(f.rows for f in self.files)

    @property
    def created_millis(self) -> int:
        """The creation time of the newest file."""
        return max(f.created_millis for f in self.files)

    def to_json(self) -> dict[str, Any]:
        """Return the run as a JSON object."""
        return {"level": self.level, "files": [f.to_json() for f in self.files]}


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketTree:
    """The sorted runs of a bucket, newest first, and the numbers of runs at which compaction and waits begin.

    `keys` names the key columns; `least_key` and `greatest_key` are the ends of the axis.
    """

    partition: str | None
    bucket: int
    runs: tuple[TreeRun, ...]
    max_level: int
    compaction_trigger: int
    stop_trigger: int
    keys: str
    least_key: str
    greatest_key: str

    @property
    def bytes(self) -> int:
        """The size of all files in bytes."""
        return sum(r.bytes for r in self.runs)

    @property
    def rows(self) -> int:
        """The number of records in all files."""
        return sum(r.rows for r in self.runs)

    @property
    def name(self) -> str:
        """The name of the bucket with its partition."""
        return f"{self.partition + ' ' if self.partition else ''}bucket {self.bucket}"

    @property
    def state(self) -> str:
        """The state of the bucket by its number of sorted runs."""
        if len(self.runs) > self.stop_trigger:
            return "writers wait"
        return "compaction due" if len(self.runs) >= self.compaction_trigger else "in shape"

    @property
    def gauge(self) -> str:
        """A box for each sorted run up to the stop trigger, filled for existing runs; empty text for too many runs.

        A thin line marks the compaction trigger, a thick line the stop trigger, above which writers wait.
        """
        runs, trigger, stop = len(self.runs), self.compaction_trigger, self.stop_trigger
        if max(runs, stop) > _GAUGE_MAX:
            return ""
        return "".join(
            ("│" if i == trigger else "") + ("■" if i <= runs else "□") + ("┃" if i == stop else "")
            for i in range(1, max(runs, stop) + 1)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the tree as a JSON object."""
        return {
            "partition": self.partition,
            "bucket": self.bucket,
            "maxLevel": self.max_level,
            "compactionTrigger": self.compaction_trigger,
            "stopTrigger": self.stop_trigger,
            "runs": [r.to_json() for r in self.runs],
        }


def tree_of(
    files: Sequence[DataFileMeta], schema: TableSchema, options: CoreOptions, *, partition: str | None, bucket: int
) -> BucketTree:
    """Return the tree of the files of a bucket in a primary-key table; there is at least one file."""
    levels = Levels.of(files, options.num_levels)
    newest_first = levels.files
    starts, ends, texts = _axis(newest_first, schema.key_types)
    count = len(newest_first)
    drawn = {
        file.file_name: TreeFile(
            name=file.file_name,
            bytes=file.file_size,
            rows=file.row_count,
            deletes=file.delete_row_count,
            least_key=texts[i],
            greatest_key=texts[count + i],
            start=float(starts[i]),
            end=float(ends[i]),
            created_millis=file.creation_time_millis,
        )
        for i, file in enumerate(newest_first)
    }
    runs = tuple(
        TreeRun(
            level=r.level,
            files=tuple(sorted((drawn[f.file_name] for f in r.run.files), key=lambda f: (f.start, f.end))),
        )
        for r in levels.runs
    )
    return BucketTree(
        partition=partition,
        bucket=bucket,
        runs=runs,
        max_level=levels.max_level,
        compaction_trigger=options.compaction_trigger,
        stop_trigger=options.stop_trigger,
        keys=", ".join(schema.trimmed_primary_keys),
        least_key=texts[int(np.argmin(starts))],
        greatest_key=texts[count + int(np.argmax(ends))],
    )


def _axis(
    files: Sequence[DataFileMeta], types: Sequence[DataType]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], list[str]]:
    """Return the starts and ends of the files from 0 to 1, and the texts of their smallest, then their largest keys."""
    columns = decode_rows([f.min_key for f in files] + [f.max_key for f in files], types)
    texts = [_key_text(values) for values in zip(*(python_values(c) for c in columns), strict=True)]
    numbers = _numbers(columns)
    if numbers is None:
        least, greatest = key_ranks(files, types)
        numbers = np.concatenate([least, greatest]).astype(np.float64)
    low, high = numbers.min(), numbers.max()
    places = (numbers - low) / (high - low) if high > low else np.repeat([0.0, 1.0], len(files))
    return places[: len(files)], places[len(files) :], texts


def _numbers(columns: Sequence[Any]) -> npt.NDArray[np.float64] | None:
    """Return the keys as numbers to scale; None if they are not numeric or not finite."""
    if len(columns) != 1:
        return None
    column, kind = columns[0], columns[0].type
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return None
    numbers: npt.NDArray[np.float64] = to_numpy(column.cast(pa.float64(), safe=False))
    return numbers if bool(np.isfinite(numbers).all()) else None


def _key_text(values: Sequence[object]) -> str:
    text = ", ".join(f"{value}" for value in values)
    return text if len(text) <= _KEY_TEXT_LENGTH else text[: _KEY_TEXT_LENGTH - 1] + "…"


BUCKETS_DRAWN = 8
"""The number of buckets that are drawn by default: those with the most sorted runs."""

_FIGURES_WIDTH = 40
_LEAST_BAR = 20
_GREATEST_BAR = 100
_FILLS = "█▒"
"""The alternating fills of consecutive files in a run."""
_LEVEL_STYLES = ("cyan", "blue", "magenta", "green", "yellow")


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsDrawing:
    """A drawing of trees for rich; `now_millis` is local time without zone, `left_out` the number of other buckets."""

    title: str
    trees: tuple[BucketTree, ...]
    now_millis: int
    left_out: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
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
    """Return the trees with the most sorted runs, in their order."""
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
    """Return the files of a run as a bar; each file has at least one character."""
    cells = [" "] * width
    for index, file in enumerate(run.files):
        first = min(int(file.start * width), width - 1)
        last = max(first, min(round(file.end * width) - 1, width - 1))
        for cell in range(first, last + 1):
            cells[cell] = _FILLS[index % len(_FILLS)]
    return "".join(cells).rstrip()


BUCKETS_PICTURED = 12
"""The number of buckets in a picture: those with the most sorted runs."""

_BLUES = ("#93c5fd", "#60a5fa", "#3b82f6", "#2563eb", "#1d4ed8", "#1e3a8a")
"""The colors of the levels, from level 0 (newest, lightest) to the highest."""
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
        # Otherwise the longest text would determine the widths of this part.
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
    # More than half of the width is for the figures next to the bars.
    sizes.set_xlim(0, largest * 5)
    sizes.set_xticks([])
    color = _STATE_COLORS[tree.state]
    runs = f"{len(tree.runs)} sorted run{'' if len(tree.runs) == 1 else 's'}"
    _headline(sizes, f"{runs}, {tree.state}", tree.gauge, (color, color))


def _frame(axes: "Axes", tree: BucketTree, rows: int) -> None:
    """Draw a line for each run, newest on top, and lines between the levels."""
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_yticks(range(len(tree.runs)), _level_names(tree), color=INK, fontsize=8)
    axes.tick_params(length=0)
    for side in ("top", "right", "bottom", "left"):
        axes.spines[side].set_visible(False)
    for row in range(1, len(tree.runs)):
        if tree.runs[row].level != tree.runs[row - 1].level:
            axes.axhline(row - 0.5, color=GRID, linewidth=1, zorder=0)


def _level_names(tree: BucketTree) -> list[str]:
    """Return the labels of the runs: a name for the first run of each level."""
    levels = [run.level for run in tree.runs]
    return [f"level {level}" if level not in levels[:row] else "" for row, level in enumerate(levels)]


def _headline(axes: "Axes", first: str, second: str, colors: tuple[str, str]) -> None:
    """Draw two lines in place of a title."""
    axes.set_title(first, color=colors[0], fontsize=10, pad=21)
    axes.annotate(
        second, (0, 1), xycoords="axes fraction", xytext=(0, 6), textcoords="offset points", color=colors[1], fontsize=9
    )
