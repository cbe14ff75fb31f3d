"""Pictures by matplotlib, the optional extra `plot`: loaded when one is drawn, without its global state or windows."""

import io
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from interbed.storage.base.errors import InvalidInputError, StorageAccessError, is_installed, missing_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = ("svg", "png", "pdf")
"""Kinds of files that are written."""

INK = "#1f2937"
MUTED = "#6b7280"
GRID = "#e5e7eb"
COLORS = ("#2563eb", "#ea580c", "#059669", "#9333ea", "#dc2626", "#0891b2", "#a16207", "#475569")
"""Lines are distinguished by these, also by most people with a colour-vision deficiency."""

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
    # The same picture has the same bytes.
    "svg.hashsalt": "interbed",
}


def kind_of(path: str | PathLike[str]) -> str:
    """The kind of picture by the file's suffix; raises InvalidInputError for one that is not written."""
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in KINDS:
        raise InvalidInputError(f"A picture is an .svg, .png or .pdf file, which '{Path(path).name}' is not.")
    return kind


def require_drawing(path: str | PathLike[str]) -> None:
    """Find out whether a picture can be drawn to that file, before the work is done for it.

    Raises MissingExtraError when matplotlib is not installed, InvalidInputError for an unknown kind of file.
    """
    kind_of(path)
    if not is_installed("matplotlib"):
        raise missing_extra("matplotlib", needed_by="A picture")


def new_figure(path: str | PathLike[str], width: float, height: float) -> "Figure":
    """A figure of so many inches for that file; raises as require_drawing does."""
    require_drawing(path)
    # An optional extra, and slow to load.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def style() -> Any:
    """The context in which figures are filled and saved, so that a user's own settings stay as they are."""
    from matplotlib import rc_context

    return rc_context(_STYLE)


def save_figure(figure: "Figure", path: str | PathLike[str]) -> None:
    """Write the figure; the file is whole or not there. Raises StorageAccessError when it can't be written."""
    kind = kind_of(path)
    content = io.BytesIO()
    # A date would make the bytes of equal pictures differ.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    figure.savefig(content, format=kind, dpi=144, metadata=metadata)
    try:
        Path(path).write_bytes(content.getvalue())
    except OSError as error:
        raise StorageAccessError(f"The picture '{path}' can't be written: {error.strerror}.") from error


def light_grid(axes: "Axes", axis: Literal["x", "y"] = "y") -> None:
    """Lines behind the data, for the ticks of one axis."""
    axes.set_axisbelow(True)
    axes.grid(visible=True, axis=axis)
    axes.tick_params(length=0)
