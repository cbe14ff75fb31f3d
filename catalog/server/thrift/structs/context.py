"""What the environment context of a request says: properties beside its arguments."""

from typing import Any

_PURGE = "ifPurge"


def context_properties(context: Any) -> dict[str, str]:
    """The properties of an EnvironmentContext structure, none if it is absent."""
    return dict(getattr(context, "properties", None) or {})


def is_purge(context: Any) -> bool:
    """Whether files are to be deleted rather than moved to the trash (DROP ... PURGE)."""
    return context_properties(context).get(_PURGE, "").lower() == "true"
