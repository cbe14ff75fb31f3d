"""The scripts of tests/spark_ext/script on PySpark 4.3; runs.py there says on which catalogs."""

from pathlib import Path

from tests.spark_ext.script.runs import differences


def test_the_scripts_answer_as_they_say(tmp_path: Path) -> None:
    found = differences("4.3", tmp_path)

    assert not found, "\n\n".join(found)
