"""The command line of simulations: `interbed simulate compaction --commits 500 --option compaction.size-ratio=10`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from interbed.catalog.client.cli.group import json_flag, pairs, show, show_json
from interbed.storage.base.terminal import SuggestingGroup, print_text

if TYPE_CHECKING:
    from interbed.storage.views.simulate.simulation import Simulation


@click.group(name="simulate", cls=SuggestingGroup)
def simulate_group() -> None:
    """Try out options without a table."""


@simulate_group.command()
@click.option("--commits", default=200, show_default=True, help="Number of commits.")
@click.option("--rows", default=10_000, show_default=True, help="Rows of a commit.")
@click.option("--row-bytes", default=100, show_default=True, help="Bytes of a row in a file.")
@click.option("--update-ratio", default=0.5, show_default=True, help="Part of the rows that update existing keys.")
@click.option("--delete-ratio", default=0.0, show_default=True, help="Part of the rows that delete existing keys.")
@click.option(
    "--keys",
    type=click.Choice(["uniform", "zipf", "latest"]),
    default="uniform",
    show_default=True,
    help="Which keys are updated and deleted: all alike, by Zipf's law, or the latest by Zipf's law.",
)
@click.option("--zipf-exponent", default=0.99, show_default=True, help="Exponent of Zipf's law.")
@click.option(
    "--inserts",
    type=click.Choice(["random", "ascending"]),
    default="random",
    show_default=True,
    help="Where new keys lie: anywhere, or after all others.",
)
@click.option("--interval", default="1 min", show_default=True, help="Time between two commits.")
@click.option("--compact-every", default=1, show_default=True, help="Commits between two turns of the compaction.")
@click.option("--seed", default=0, show_default=True, help="The same seed gives the same rows.")
@click.option("--option", "-o", "options", multiple=True, metavar="KEY=VALUE", help="A table option; repeatable.")
@click.option("--vary", metavar="KEY=VALUE,VALUE…", help="Compare values of a table option.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw to this .svg, .png or .pdf file.")
@json_flag
def compaction(
    commits: int,
    rows: int,
    row_bytes: int,
    update_ratio: float,
    delete_ratio: float,
    keys: str,
    zipf_exponent: float,
    inserts: str,
    interval: str,
    compact_every: int,
    seed: int,
    options: Sequence[str],
    vary: str | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Write, read and space amplification of one bucket over a series of commits.

    Table options decide: num-sorted-run.compaction-trigger, compaction.size-ratio, target-file-size and so on. With
    --vary several values of one option go through the same commits.
    """
    from interbed.storage.base.quantities import parse_duration_millis
    from interbed.storage.views.figure import require_drawing
    from interbed.storage.views.simulate.simulation import plot_simulations
    from interbed.storage.views.simulate.simulator import simulate
    from interbed.storage.views.simulate.workload import InsertOrder, KeyDistribution, Workload

    workload = Workload(
        commits=commits,
        rows=rows,
        row_bytes=row_bytes,
        update_ratio=update_ratio,
        delete_ratio=delete_ratio,
        distribution=KeyDistribution(keys),
        zipf_exponent=zipf_exponent,
        insert_order=InsertOrder(inserts),
        interval_millis=parse_duration_millis("--interval", interval),
        seed=seed,
    )
    if plot is not None:
        # Found out before the work is done.
        require_drawing(plot)
    table_options = pairs(options)
    simulations = [
        simulate(workload, table_options | varied, compact_every=compact_every, label=label)
        for label, varied in _variants(vary)
    ]
    if plot is not None:
        plot_simulations(simulations, plot)
    _show(simulations, as_json, compare=vary is not None)


def _variants(vary: str | None) -> list[tuple[str, dict[str, str]]]:
    if vary is None:
        return [("", {})]
    [(key, values)] = pairs([vary], form="KEY=VALUE,VALUE", hint="--vary").items()
    return [(f"{key}={value}", {key: value}) for value in dict.fromkeys(v.strip() for v in values.split(","))]


def _show(simulations: "Sequence[Simulation]", as_json: bool, *, compare: bool) -> None:
    from interbed.storage.views.simulate.simulation import compared

    if not compare:
        show(simulations[0], as_json)
    elif as_json:
        show_json([s.to_json() for s in simulations])
    else:
        print_text(compared(simulations))
