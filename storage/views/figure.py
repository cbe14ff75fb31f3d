"""Figures of matplotlib, the optional extra `plot`. It is loaded on use, without its global state or windows."""

import io
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from interbed.storage.base.errors import InvalidInputError, StorageAccessError, is_installed, missing_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = ("svg", "png", "pdf")
"""The supported kinds of files."""

INK = "#1f2937"
MUTED = "#6b7280"
GRID = "#e5e7eb"
COLORS = ("#2563eb", "#ea580c", "#059669", "#9333ea", "#dc2626", "#0891b2", "#a16207", "#475569")
"""Colors of lines, which most readers with a color-vision deficiency can distinguish."""

_STYLE: Any = {
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.color": GRID,
    "legend.frameon": False,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    # Equal pictures have equal bytes.
    "svg.hashsalt": "interbed",
}


def kind_of(path: str | PathLike[str]) -> str:
    """Return the kind of a picture by the suffix of its file; raises InvalidInputError for an unsupported one."""
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in KINDS:
        raise InvalidInputError(f"A picture is an .svg, .png or .pdf file, which '{Path(path).name}' is not.")
    return kind


def require_drawing(path: str | PathLike[str]) -> None:
    """Check that a picture can be drawn to the file, before any other work.

    Raises MissingExtraError if matplotlib is not installed, InvalidInputError for an unsupported kind of file.
    """
    kind_of(path)
    if not is_installed("matplotlib"):
        raise missing_extra("matplotlib", needed_by="A picture")


def new_figure(path: str | PathLike[str], width: float, height: float) -> "Figure":
    """Return a figure of this size in inches for the file; raises what require_drawing raises."""
    require_drawing(path)
    # Imported here: an optional extra, and slow to load.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def style() -> Any:
    """Return the context in which figures are drawn and saved, which keeps the user's own settings."""
    from matplotlib import rc_context

    return rc_context(_STYLE)


def save_figure(figure: "Figure", path: str | PathLike[str]) -> None:
    """Write the figure to the file; raises StorageAccessError if that fails."""
    kind = kind_of(path)
    content = io.BytesIO()
    # A date would make equal pictures differ.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    figure.savefig(content, format=kind, dpi=144, metadata=metadata)
    try:
        Path(path).write_bytes(content.getvalue())
    except OSError as error:
        raise StorageAccessError(f"The picture '{path}' can't be written: {error.strerror}.") from error


def light_grid(axes: "Axes", axis: Literal["x", "y"] = "y") -> None:
    """Draw grid lines behind the data, for the ticks of one axis."""
    axes.set_axisbelow(True)
    axes.grid(visible=True, axis=axis)
    axes.tick_params(length=0)
