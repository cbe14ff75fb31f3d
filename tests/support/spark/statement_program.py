"""Program of the tests of statements whose processes are killed: runs SQL statements, one after another.

python statement_program.py MASTER WAREHOUSE PIDS STATEMENT…
"""

import sys

from tests.support.spark.stream_program import small_session


def main(master: str, warehouse: str, pids: str, *statements: str) -> None:
    """Run the statements in a session whose catalog is `lake`."""
    spark = small_session(warehouse, pids, master)
    for statement in statements:
        spark.sql(statement).collect()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
