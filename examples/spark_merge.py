"""Spark SQL on a lake: a MERGE of changes, and a stream from one table to another.

Needs `pip install 'interbed[spark]'` and a JDK. Python reads what Spark has written, without Spark.

    python examples/spark_merge.py [--keep DIRECTORY]
"""

import argparse
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

import interbed
from interbed import spark_ext

TABLES = """
CREATE NAMESPACE lake.shop;
CREATE TABLE lake.shop.orders (id INT, customer STRING, amount INT)
  TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'changelog-producer' = 'lookup');
CREATE TABLE lake.shop.paid (id INT, customer STRING, amount INT)
  TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1');
INSERT INTO lake.shop.orders VALUES (1, 'ann', 10), (2, 'bob', 20), (3, 'cid', 30)
"""

MERGE = """
MERGE INTO lake.shop.orders o
  USING (SELECT * FROM VALUES (2, 'bob', 25, false), (3, 'cid', 0, true), (4, 'dee', 40, false)
         AS changes(id, customer, amount, gone)) c
  ON o.id = c.id
  WHEN MATCHED AND c.gone THEN DELETE
  WHEN MATCHED THEN UPDATE SET amount = c.amount
  WHEN NOT MATCHED THEN INSERT (id, customer, amount) VALUES (c.id, c.customer, c.amount)
"""


def session(directory: Path) -> SparkSession:
    """A small local session with the extension."""
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("interbed example")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(directory / "spark-warehouse"))
        .config("spark.log.level", "ERROR")
    )
    return spark_ext.configure(builder).getOrCreate()


def print_table(spark: SparkSession, query: str) -> None:
    """The rows of a query."""
    print(" ".join(query.split()))
    for row in spark.sql(query).collect():
        print("   ", *row)


def stream_large_orders(spark: SparkSession, directory: Path) -> None:
    """Everything that is new in `orders` since the last call, filtered, into `paid`; exactly once."""
    rows = spark.readStream.table("lake.shop.orders").where("amount >= 20")
    writer = rows.writeStream.option("checkpointLocation", str(directory / "checkpoint"))
    query = writer.trigger(availableNow=True).toTable("lake.shop.paid")
    query.awaitTermination(120)


def run(directory: Path) -> None:
    """Tables, a MERGE, time travel, a stream in two parts."""
    spark = session(directory)
    spark.sql(f"CREATE CATALOG lake WITH ('type' = 'interbed', 'warehouse' = 'file:{directory}/lake')")
    for statement in TABLES.split(";"):
        spark.sql(statement)
    stream_large_orders(spark, directory)
    print_table(spark, "SELECT * FROM lake.shop.paid ORDER BY id")

    spark.sql(MERGE)
    print_table(spark, "SELECT * FROM lake.shop.orders ORDER BY id")
    print_table(spark, "SELECT * FROM lake.shop.orders VERSION AS OF 1 ORDER BY id")
    print_table(spark, "SELECT rowkind, id, amount FROM lake.shop.`orders$audit_log` ORDER BY id, rowkind")

    # The stream goes on where its checkpoint says: it brings what the MERGE has added and updated; deletions
    # are in `orders$audit_log` only.
    stream_large_orders(spark, directory)
    print_table(spark, "SELECT * FROM lake.shop.paid ORDER BY id")
    spark.stop()

    orders = interbed.load_catalog("lake", warehouse=f"file:{directory}/lake").get_table("shop.orders")
    print("Python, without Spark:", orders.get(2))


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="where the lake is made and left")
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory() as temporary:
        run(keep or Path(temporary))


if __name__ == "__main__":
    main()
