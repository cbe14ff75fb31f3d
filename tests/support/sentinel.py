"""Directory tree around a warehouse, to check that nothing outside of the warehouse was created, changed or deleted."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Sentinel:
    """Directory tree with a warehouse in it, two levels down, and foreign files on every level.

    The foreign directories have names that hostile table names lead to.
    """

    root: Path

    @staticmethod
    def made_in(root: Path) -> "Sentinel":
        """Create the tree; its warehouse does not exist yet."""
        sentinel = Sentinel(root)
        for directory in (root, root / "outer", *sentinel.precious):
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "foreign.txt").write_text(f"kept in {directory}")
        return sentinel

    @property
    def warehouse(self) -> Path:
        """Directory of the future warehouse."""
        return self.root / "outer" / "lake"

    @property
    def precious(self) -> tuple[Path, ...]:
        """Foreign directories that must survive."""
        return tuple(self.root / inner for inner in ("precious", "outer/precious", "outer/x.db/y", "outer/etc/passwd"))

    def outside(self) -> dict[str, str | None]:
        """Return everything outside of the warehouse: texts of files, targets of links, None for directories."""
        return _below(self.root, self.warehouse)

    def inside(self) -> dict[str, str | None]:
        """Return everything in the warehouse."""
        return _below(self.warehouse, None)


def _below(root: Path, without: Path | None) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for at, directories, files in os.walk(root):
        if without is not None:
            directories[:] = [name for name in directories if Path(at, name) != without]
        for name in directories:
            path = Path(at, name)
            found[str(path)] = os.readlink(path) if path.is_symlink() else None
        for name in files:
            path = Path(at, name)
            found[str(path)] = os.readlink(path) if path.is_symlink() else path.read_bytes().decode("latin-1")
    return found
