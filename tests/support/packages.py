"""Folders of the source tree that are packages of interbed, as the wheel sources of pyproject.toml list them."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SOURCES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
WHEEL_FOLDERS: dict[str, str] = dict(_SOURCES["wheel"]["sources"])
"""Path in the wheel by folder."""
_NOT_OURS = ("src/interbed", "thrift_idl", "alembic")
PACKAGES = tuple(sorted(folder for folder in WHEEL_FOLDERS if folder not in _NOT_OURS))
"""Folders with modules of the product, without generated code and migrations."""


def source_files(*folders: str) -> list[Path]:
    """Return the Python files below folders of the source tree, sorted; without folders those of all packages."""
    return sorted(path for folder in folders or PACKAGES for path in (ROOT / folder).rglob("*.py"))
