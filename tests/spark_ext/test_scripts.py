"""The scripts of tests/spark_ext/script on the installed PySpark; runs.py there says on which catalogs."""

from pathlib import Path

from tests.spark_ext.script.runs import differences
from tests.support.pyspark_versions import INSTALLED


def test_the_scripts_answer_as_they_say(tmp_path: Path) -> None:
    found = differences(INSTALLED, tmp_path)

    assert not found, "\n\n".join(found)
