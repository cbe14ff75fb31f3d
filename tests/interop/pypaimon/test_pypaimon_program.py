"""A program written for pypaimon behaves the same after its imports are changed to interbed."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.peers.cache import pypaimon_python
from tests.support.waits import at_most

HERE = Path(__file__).parent
IMPORTS = (
    ("from pypaimon import", "from interbed import"),
    (r"from pypaimon\.[\w.]+ import", "from interbed.pypaimon import"),
)
"""Changed imports: the main names come from interbed, all others from interbed.pypaimon."""


def run(python: Path | str, program: Path, warehouse: Path) -> dict[str, Any]:
    warehouse.mkdir()
    done = subprocess.run(
        [str(python), str(program), str(warehouse)], capture_output=True, text=True, timeout=at_most(120), check=False
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


@pytest.mark.parametrize("name", ["pypaimon_program.py", "pypaimon_parts_program.py"])
def test_a_pypaimon_program_behaves_the_same_with_interbeds_imports(tmp_path: Path, name: str) -> None:
    theirs = run(pypaimon_python(), HERE / name, tmp_path / "theirs")
    text = (HERE / name).read_text()
    for pattern, replacement in IMPORTS:
        text = re.sub(pattern, replacement, text)
    changed = tmp_path / "program.py"
    changed.write_text(text)
    assert "interbed" in text
    assert "import pypaimon" not in text
    ours = run(sys.executable, changed, tmp_path / "ours")
    assert list(ours) == list(theirs)
    for key, seen in theirs.items():
        assert ours[key] == seen, key
