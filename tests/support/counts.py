"""Count the modules of the packages, their sizes, and the words of the pages at the root.

    python -m tests.support.counts          a table for people
    python -m tests.support.counts --json   the same for programs

A module is a file of a package; `__init__.py`, generated code and migrations do not count.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from tests.support.packages import PACKAGES, ROOT

GENERATED = ("thrift_idl/", "alembic/")
SMALL = 60
LARGE = 500


def modules(root: Path = ROOT) -> dict[str, int]:
    """Return the number of lines of each module, by its path from the root."""
    found = [path for package in PACKAGES for path in (root / package).rglob("*.py")]
    sizes = {str(path.relative_to(root)): len(path.read_text(encoding="utf-8").splitlines()) for path in found}
    return {
        name: lines
        for name, lines in sorted(sizes.items())
        if not name.endswith("__init__.py") and not name.startswith(GENERATED)
    }


def counts(root: Path = ROOT) -> dict[str, object]:
    """Return all counts: modules of each package, small and large ones, words of the pages at the root."""
    sizes = modules(root)
    pages = {name: (root / name).read_text(encoding="utf-8") for name in ("README.md", "ARCHITECTURE.md")}
    return {
        "modules": len(sizes),
        "by package": dict(sorted(Counter(_package(name) for name in sizes).items())),
        f"under {SMALL} lines": sum(lines < SMALL for lines in sizes.values()),
        f"over {LARGE} lines": sorted(name for name, lines in sizes.items() if lines > LARGE),
        "words": {name: len(text.split()) for name, text in pages.items()},
    }


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print JSON")
    found = counts()
    if parser.parse_args().json:
        json.dump(found, sys.stdout, indent=2)
        print()
        return
    for name, value in found.items():
        print(f"{name}: {value}")


def _package(name: str) -> str:
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] in ("catalog", "storage") and len(parts) > 2 else parts[0]


if __name__ == "__main__":
    main()
