"""Examples of Hypothesis are the same in every run, whatever else the process has imported, unless it explores."""

import importlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import EXPLORING, PROFILES

VALUES = st.tuples(st.integers(), st.text(), st.binary(), st.floats(allow_nan=False))


def _tried() -> list[object]:
    found: list[object] = []

    @settings(PROFILES["steady"], max_examples=100)
    @given(VALUES)
    def collect(values: object) -> None:
        found.append(values)

    collect()
    return found


def test_the_literals_of_an_imported_module_change_no_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _tried()
    numbers = ", ".join(f"{number}, '{number:x}', b'{number:o}', {number}.5" for number in range(70_000, 70_100))
    (tmp_path / "some_literals.py").write_text(f"FOUND = [{numbers}]\n")
    monkeypatch.syspath_prepend(tmp_path)

    importlib.import_module("some_literals")

    assert (_tried() == before) is not EXPLORING
