"""A program written for pypaimon does the same after its import is changed to interbed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.peers_cache import pypaimon_python

PROGRAM = Path(__file__).with_name("pypaimon_program.py")


def run(python: Path | str, program: Path, warehouse: Path) -> dict[str, Any]:
    warehouse.mkdir()
    done = subprocess.run(
        [str(python), str(program), str(warehouse)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def test_a_program_for_pypaimon_sees_the_same_with_its_import_changed(tmp_path: Path) -> None:
    theirs = run(pypaimon_python(), PROGRAM, tmp_path / "theirs")
    text = PROGRAM.read_text()
    changed = tmp_path / "program.py"
    changed.write_text(text.replace("from pypaimon import", "from interbed import"))
    assert changed.read_text() != text
    ours = run(sys.executable, changed, tmp_path / "ours")
    assert list(ours) == list(theirs)
    for name, seen in theirs.items():
        assert ours[name] == seen, name
