"""Empty virtual environments to install distributions into; their programs find no JDK."""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.waits import at_most

SECONDS_MAX = at_most(900)
SMOKE = Path(__file__).with_name("smoke.py")


class DistributionError(RuntimeError):
    """Failure of a distribution; the message has the command and its output."""


@dataclass(frozen=True, slots=True)
class VirtualEnvironment:
    """A virtual environment in its own folder."""

    folder: Path

    @property
    def python(self) -> Path:
        """Path of its Python interpreter."""
        return self.folder / "bin" / "python"

    def smoke(self, version: str, with_jar: bool) -> str:
        """Run the smoke test and return what it printed. Raises DistributionError."""
        jar = "present" if with_jar else "absent"
        command: list[str | Path] = [self.python, "-I", SMOKE, "--version", version, "--jar", jar]
        with tempfile.TemporaryDirectory(dir=self.folder) as elsewhere:
            return run(command, Path(elsewhere), without_jdk(self.folder))


def without_jdk(environment: Path) -> dict[str, str]:
    """Return environment variables whose PATH has only the programs of this virtual environment."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("JAVA", "JDK", "PYTHON", "INTERBED"))
    }
    return {**kept, "PATH": str(environment / "bin")}


def run(command: Sequence[str | Path], folder: Path, variables: dict[str, str] | None = None) -> str:
    """Run a command and return what it printed to stdout. Raises DistributionError when it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    if done.returncode != 0:
        raise DistributionError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout
