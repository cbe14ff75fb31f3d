"""Count the modules of the packages, their sizes, and the words of the pages at the root.

    python -m tests.support.counts          a table for people
    python -m tests.support.counts --json   the same for programs

A module is a Python file of a package but its `__init__.py`. Generated code and migrations are in no package.
"""

import argparse
import json
import sys
from collections import Counter

from tests.support.packages import ROOT, source_files

SMALL = 60
LARGE = 500


def module_sizes() -> dict[str, int]:
    """Return the number of lines of each module, by its path from the root."""
    return {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in source_files()
        if path.name != "__init__.py"
    }


def counts() -> dict[str, object]:
    """Return all counts: modules of each package, small and large ones, words of the pages at the root."""
    sizes = module_sizes()
    return {
        "modules": len(sizes),
        "by package": dict(sorted(Counter(_package(name) for name in sizes).items())),
        f"under {SMALL} lines": sum(lines < SMALL for lines in sizes.values()),
        f"over {LARGE} lines": sorted(name for name, lines in sizes.items() if lines > LARGE),
        "words": page_words(),
    }


def page_words() -> dict[str, int]:
    """Return the number of words of the pages at the root that have a limit."""
    return {name: len((ROOT / name).read_text(encoding="utf-8").split()) for name in ("README.md", "ARCHITECTURE.md")}


def main() -> None:
    """Print the counts as a table, or as JSON."""
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
