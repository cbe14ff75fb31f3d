"""Run the scripts on Paimon's own Spark connector, 0.9.0 on Spark 3.5, and print where its answers differ.

    python -m tests.spark_ext.script.against_paimon [script …]

Each difference is a defect of ours or has its reason in the script, in a comment `-- Paimon 0.9: …` before the
statement; those are counted, the others are printed.
"""

import re
import sys
import tempfile
from pathlib import Path

from tests.spark_ext.script.runs import SCRIPTS, run_program, script_names
from tests.support.peers.spark import maven_jars

PYSPARK = "3.5"


def explained(script: str) -> set[int]:
    """Return the lines of the statements before which a comment explains how Paimon differs."""
    lines = (SCRIPTS / f"{script}.sql").read_text(encoding="utf-8").splitlines()
    found = set()
    for number, line in enumerate(lines, 1):
        if line.startswith("-- Paimon 0.9:"):
            following = number
            while lines[following].startswith("--") or not lines[following].strip():
                following += 1
            found.add(following + 1)
    return found


def main(names: list[str]) -> int:
    """Run the scripts and return the number of unexplained differences."""
    with tempfile.TemporaryDirectory(prefix="interbed-paimon-spark-", ignore_cleanup_errors=True) as home:
        jars = sorted(maven_jars("paimon_spark", "paimon-spark-0.9.0").glob("*.jar"))
        settings = {
            "spark.jars": ",".join(map(str, jars)),
            "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
            "spark.sql.catalog.lake": "org.apache.paimon.spark.SparkCatalog",
            "spark.sql.catalog.lake.warehouse": f"file:{home}/lake",
            "spark.sql.warehouse.dir": f"{home}/spark",
        }
        answers = run_program(PYSPARK, settings, {"lake": ""}, {"lake": names})
    unexplained = 0
    for one in answers:
        difference = one.get("difference")
        if difference is None:
            print(f"{one['statements']} statements")
            continue
        line = re.match(r"line (\d+)", difference)
        if line is not None and int(line[1]) in explained(one["script"]):
            continue
        unexplained += 1
        print(f"-- {Path(one['script']).name}.sql {difference[:900]}\n")
    print(f"{unexplained} unexplained differences")
    return unexplained


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:] or script_names()) else 0)
