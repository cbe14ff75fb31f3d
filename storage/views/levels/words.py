"""Sizes and ages in a word, for drawings."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size_text(size: int) -> str:
    """Bytes in the unit that suits them: `12.3 MiB`."""
    value = float(size)
    for unit in _UNITS[:-1]:
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} {_UNITS[-1]}"


def age_text(millis: int) -> str:
    """How long ago: `3 s`, `5 min`, `2 h`, `9 d`; what lies in the future counts as now."""
    seconds = max(0, millis) // 1000
    for limit, length, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds // length} {unit}"
    return f"{seconds // 86_400} d"
