"""From Kafka into a table: rows in a CPU second compared with Spark and Iceberg, and memory of an endless ingestion.

    python -m tests.benchmarks.ingest [--rows 1000000] [--minutes 10] [--rate 4000] [--skip-spark] [--skip-memory]
                                      [--skip-comparison] [--json]

See comparison.py and memory.py in this folder. With `--minutes 10` it commits every ten seconds.
"""

import argparse
import json
import sys
from typing import Any

from rich.console import Console

from tests.benchmarks.ingest import comparison, memory


def main() -> None:
    """Parse the command line, measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=comparison.ROWS)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long memory is watched")
    parser.add_argument("--rate", type=int, default=memory.RATE, help="messages in a second meanwhile")
    parser.add_argument("--skip-comparison", action="store_true", help="only watch memory")
    parser.add_argument("--skip-spark", action="store_true")
    parser.add_argument("--skip-memory", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    console = Console(stderr=arguments.json, width=None if sys.stdout.isatty() else 140)
    found: dict[str, Any] = {}
    if not arguments.skip_comparison:
        compared = comparison.measure(console, arguments.rows, with_spark=not arguments.skip_spark)
        comparison.show(compared, console)
        found |= {"stream": comparison.as_json(compared)}
    if not arguments.skip_memory:
        watched = memory.measure(console, minutes=arguments.minutes, rate=arguments.rate)
        memory.show(watched, console)
        found |= {"memory": memory.as_json(watched)}
    if arguments.json:
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
