"""The statements of the README run one after the other, as a reader would type them."""

import re
from pathlib import Path

from pyspark.sql import SparkSession

from interbed.testing import metastore

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_statements_of_the_readme_run_as_written(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    with metastore(warehouse=f"file:{tmp_path}/unused") as uri:
        text = README.read_text(encoding="utf-8").replace("file:/tmp/lake", f"file:{tmp_path}/lake")
        blocks = re.findall(r"```sql\n(.*?)```", text.replace("thrift://127.0.0.1:9083", uri), re.DOTALL)
        statements = [s.strip() for block in blocks for s in re.split(r";\n", block) if s.strip()]
        assert len(statements) >= 12
        answers = [session.sql(statement).collect() for statement in statements]
        assert {(row.id, row.amount) for row in answers[-1]} == {(1, 8.0), (3, 1.0)}
