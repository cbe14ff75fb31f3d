"""The folders of the source tree that are packages of interbed, as the wheel's sources in pyproject.toml have them."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SOURCES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
WHEEL_FOLDERS: dict[str, str] = dict(_SOURCES["wheel"]["sources"])
"""Folder: its path in a wheel."""
_NOT_OURS = ("src/interbed", "thrift_idl", "alembic")
PACKAGES = tuple(sorted(folder for folder in WHEEL_FOLDERS if folder not in _NOT_OURS))
"""Those with modules of the product; what is generated, and migrations, are none."""


def source_files(*folders: str) -> list[Path]:
    """Return the Python files below folders of the source tree, of all packages without any, sorted."""
    return sorted(path for folder in folders or PACKAGES for path in (ROOT / folder).rglob("*.py"))
