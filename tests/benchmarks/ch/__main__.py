"""`make bench-ch`: CH-benchmark on tables that replicate a PostgreSQL database by logical replication.

    make bench-ch ARGS="--warehouses 1 --minutes 2"
    make bench-ch ARGS="--minutes 30 --compare on,off,iceberg-v3 --picture ch.svg --json" > ch.json
    python -m tests.benchmarks.ch [--format interbed|iceberg-v2|iceberg-v3] [--optimizer on|off|writer] …

Transactions of TPC-C run all the time while Spark answers the 22 queries of CH-benchmark, in rounds, on tables of
interbed or of Iceberg; see run.py in this folder. At the end all answers must equal those of PostgreSQL.

With `--optimizer on`, `interbed optimizer run` compacts interbed's tables, and their writer does not. With `writer` the
writer compacts them, with `off` nothing does. Iceberg's tables are maintained by its procedures with `on`, and not at
all with `off`. `--compare` names several runs, one after the other: on, off, writer, iceberg-v2, iceberg-v3,
iceberg-v2-rewrites, iceberg-v3-rewrites.

Runs with the same `--rate` are comparable; the figures show whether the machine reached it. Rows that new orders add
also make queries longer: choose a rate that adds few rows relative to the loaded ones, or more warehouses.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from interbed.storage.views.figure import require_drawing
from tests.benchmarks.ch.figures import Figures, as_json, figures_of, over_time, show
from tests.benchmarks.ch.lakes import CONTENDERS, has_optimizer
from tests.benchmarks.ch.picture import draw
from tests.benchmarks.ch.run import RunSettings, run
from tests.benchmarks.ch.tpcc.schema import DatabaseSize
from tests.benchmarks.origin import origin


def parsed(arguments: list[str]) -> argparse.Namespace:
    """Return the parsed command line; an invalid one ends the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--warehouses", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="scale of items, and of customers of a district")
    parser.add_argument("--minutes", type=float, default=2.0, help="duration of transactions and queries")
    parser.add_argument("--rate", type=float, default=40.0, help="transactions a second; 0 for no limit")
    parser.add_argument("--terminals", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", choices=("interbed", "iceberg-v2", "iceberg-v3"), default="interbed")
    parser.add_argument("--optimizer", choices=("on", "off", "writer"), help="default: on, if the command exists")
    parser.add_argument("--compare", metavar="NAME,…", help=f"several of {', '.join(CONTENDERS)}")
    parser.add_argument("--commit-interval", type=float, default=5.0, metavar="SECONDS", help="of the way in")
    parser.add_argument("--sample-interval", type=float, default=3.0, metavar="SECONDS")
    parser.add_argument("--table-option", action="append", default=[], metavar="KEY=VALUE", help="of interbed's tables")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="an .svg, .png or .pdf file to draw to")
    parser.add_argument("--json", action="store_true")
    found = parser.parse_args(arguments)
    found.contenders = _contenders(parser, found)
    return found


def _contenders(parser: argparse.ArgumentParser, given: argparse.Namespace) -> list[str]:
    if given.compare:
        names = list(given.compare.split(","))
        if unknown := [name for name in names if name not in CONTENDERS]:
            parser.error(f"--compare takes of {', '.join(CONTENDERS)}, not {unknown[0]}")
        return names
    if given.format == "interbed":
        return [given.optimizer or ("on" if has_optimizer() else "off")]
    if given.optimizer == "writer":
        parser.error("writers of Iceberg do not compact; --optimizer takes on or off for it")
    return [f"{given.format}-rewrites" if given.optimizer == "on" else given.format]


def main() -> None:
    """Parse the command line, run the benchmark, and print the figures."""
    given = parsed(sys.argv[1:])
    if "on" in given.contenders and not has_optimizer():
        raise SystemExit("This interbed has no command 'interbed optimizer run'; --optimizer off or writer goes.")
    if given.picture is not None:
        require_drawing(given.picture)
    measured = origin(sys.argv[1:], target="bench-ch")
    console = Console(stderr=given.json, width=None if sys.stdout.isatty() else 140)
    found: dict[str, Figures] = {}
    drawn: dict[str, Any] = {}
    for contender in given.contenders:
        settings = RunSettings(
            contender=contender,
            size=DatabaseSize(warehouses=given.warehouses, scale=given.scale),
            seconds=given.minutes * 60,
            rate=given.rate or None,
            terminals=given.terminals,
            seed=given.seed,
            commit_seconds=given.commit_interval,
            sample_seconds=given.sample_interval,
            options=dict(option.split("=", 1) for option in given.table_option),
        )
        with console.status(contender) as status:
            record = run(settings, lambda text, name=contender: status.update(f"{name}: {text}"))  # type: ignore[misc]
        found[contender], drawn[contender] = figures_of(record), over_time(record)
    show(found, console)
    if given.picture is not None:
        draw(drawn, given.picture)
        console.print(f"Drawn to {given.picture}.")
    if given.json:
        rows = max(figures["rows_loaded"] for figures in found.values())
        print(json.dumps({**measured, "rows": rows, "ch": as_json(found), "ch over time": drawn}, indent=1))


if __name__ == "__main__":
    main()
