"""What a misspelt name may have meant."""

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'orders'?`, to put behind a message; empty when no known name is near. Case does not matter."""
    import difflib

    by_lower = {k.lower(): k for k in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f" Did you mean '{by_lower[near[0]]}'?" if near else ""
