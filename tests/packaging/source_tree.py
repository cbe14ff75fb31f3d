"""A copy of the committed source tree, to build distributions from."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.waits import at_most

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = at_most(60)
# Other contents of a source tree without its history: output of tools and builds.
_WRITTEN = shutil.ignore_patterns(".git", ".venv", ".cache", ".*_cache", "__pycache__", "build", "dist", "*.jar")


def uncommitted() -> list[str]:
    """Return changed and unknown files, as `git status` prints them."""
    return _git("status", "--porcelain").splitlines()


def copy_sources(folder: Path) -> list[str]:
    """Copy the source files to `folder`, which does not exist yet; return their posix paths, sorted.

    The source files are the current contents of the files in git. In a source tree without a history they are all files
    that no tool has written.
    """
    if not (ROOT / ".git").exists():
        shutil.copytree(ROOT, folder, ignore=_WRITTEN, symlinks=True)
        links = [path for path in folder.rglob("*") if path.is_symlink()]
        for link in links:
            link.unlink()
        return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    names = sorted(name for name in _git("ls-files", "-z").split("\0") if name and (ROOT / name).is_file())
    for name in names:
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy)
    return names


def version() -> str:
    """Return the version of the source tree, from the only place that names it."""
    return _single(r'^__version__ = "(.+)"$', (ROOT / "src/interbed/__init__.py").read_text(encoding="utf-8"))


def release_problems(tag: str) -> list[str]:
    """Return the obstacles to a release under this tag, a sentence each."""
    problems = []
    if tag != f"v{version()}":
        problems.append(
            f"The tag is {tag}, but src/interbed/__init__.py says {version()}: tag v{version()} or change it."
        )
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## \[{re.escape(version())}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
        problems.append(f"CHANGELOG.md has no section `## [{version()}] - YYYY-MM-DD`: rename its section Unreleased.")
    return problems


def _single(pattern: str, text: str) -> str:
    found: Sequence[str] = re.findall(pattern, text, re.MULTILINE)
    (only,) = found
    return only


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=True).stdout
