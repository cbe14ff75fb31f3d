"""LSM trees in the terminal: a line for each sorted run, newest first, with its files along the axis of keys.

bucket 0   111 records, 11.8 KiB
sorted runs ■■□□│□□□□┃ 2, in shape (compaction from 5, writers wait above 8)
 level   records      size     age  id: 1 … 99
     0        12   2.1 KiB     3 s       ██████████
     5        99   9.7 KiB   5 min  ███████████▒▒▒▒▒▒▒▒▒▒████████
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from interbed.storage.base.shown_text import escaped
from interbed.storage.views.levels.tree import BucketTree, TreeRun
from interbed.storage.views.levels.words import age_text, size_text

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
