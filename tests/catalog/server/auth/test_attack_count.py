"""The number of attacks that tests make: enough of them, and some of every kind."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.attacks import CASES_MIN, KINDS
from tests.support.tally import Tally
from tests.support.waits import at_most

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.long
def test_there_are_attacks_of_every_kind(tally: Tally) -> None:
    counted = subprocess.run(
        [sys.executable, "-m", "tests.support.attacks"],
        cwd=ROOT,
        # The settings of this run choose among the tests; all of them count.
        env={name: value for name, value in os.environ.items() if not name.startswith("INTERBED_TEST_")},
        capture_output=True,
        text=True,
        timeout=at_most(300),
        check=False,
    )
    assert counted.returncode == 0, counted.stdout + counted.stderr
    lines = re.findall(r"^ *([\d,]+)  (.+)$", counted.stdout, re.MULTILINE)
    counts = {kind: int(number.replace(",", "")) for number, kind in lines}
    assert set(counts) == {*KINDS, "attacks"}
    assert counts["attacks"] == sum(counts[kind] for kind in KINDS) >= CASES_MIN
    tally("attacks on the server", counts["attacks"])
