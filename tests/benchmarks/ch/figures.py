"""Figures of a run: its work, its cost, and whether the goals are met."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as View

from tests.benchmarks.ch.run import Record

Figures = dict[str, Any]

ROUND_GOAL = 1.2
"""Maximal ratio of the time of a round in the last tenth of the run to that in the first tenth, with the optimizer."""
MAINTENANCE_GOAL = 0.25
"""Maximal share of the optimizer in all CPU seconds."""
ICEBERG_GOAL = 0.5
"""Maximal ratio of the time of our queries to that of Iceberg's."""
LAG_GOAL_SECONDS = 10.0


def figures_of(record: Record) -> Figures:
    """Return the figures of a run, flat. Round times of the first and last tenth are 95th percentiles."""
    tenth = record.seconds / 10
    first = [r.total_s for r in record.rounds if r.at_s < tenth] or [r.total_s for r in record.rounds[:1]]
    last = [r.total_s for r in record.rounds if r.at_s + r.total_s > record.seconds - tenth] or [
        r.total_s for r in record.rounds[-1:]
    ]
    _, cpu = record.cpu[-1] if record.cpu else (0.0, {})
    total = sum(cpu.values())
    lags = [lag for _, lag in record.lags]
    orders, minutes = record.tally.by_kind["NewOrder"] - record.tally.rolled_back, record.seconds / 60
    return {
        "seconds": round(record.seconds, 1),
        "transactions": record.tally.transactions,
        "new_orders_per_minute": round(orders / minutes) if minutes else 0,
        "rows_loaded": record.rows_loaded,
        "rounds": len(record.rounds),
        "round_mean_s": _mean(r.total_s for r in record.rounds),
        "round_first_s": _high(first),
        "round_last_s": _high(last),
        "round_growth": _high(last) / _high(first) if first and _high(first) else 0.0,
        "lag_p95_s": _high(lags),
        "lag_max_s": max(lags, default=0.0),
        "cpu_s": total,
        **{f"{name}_cpu_s": seconds for name, seconds in cpu.items()},
        "maintenance_share": cpu.get("optimizer", 0.0) / total if total else 0.0,
        **_shape(record.shapes),
        **{f"processes: {what}": count for what, count in sorted(record.processes.items())},
        "catching_up_s": record.catching_up_s,
        "empty_answers": record.empty_answers,
    }


def over_time(record: Record) -> Figures:
    """Return the series for the picture."""
    return {
        "rounds": [[round(r.at_s, 2), round(r.total_s, 3)] for r in record.rounds],
        "queries": [[round(s, 3) for s in r.seconds] for r in record.rounds],
        "lags": [[round(at, 2), round(lag, 2)] for at, lag in record.lags],
        "cpu": [[round(at, 2), {k: round(v, 2) for k, v in cpu.items()}] for at, cpu in record.cpu],
        "shapes": [[round(at, 2), shape] for at, shape in record.shapes],
    }


def _shape(shapes: Sequence[tuple[float, Mapping[str, Mapping[str, float]]]]) -> Figures:
    """Return the maximal number of runs, and the maximal totals of files and vectors, in any sample."""
    if not shapes:
        return {}
    found = {
        "files_max": max(total(shape, "files", "data_files") for _, shape in shapes),
        "deletion_files_max": max(total(shape, "vectors", "delete_files") for _, shape in shapes),
    }
    runs = [most_runs(shape) for _, shape in shapes]
    return {**found, **({"runs_max": max(runs), "runs_last": runs[-1]} if any(runs) else {})}


def total(shape: Mapping[str, Mapping[str, float]], *names: str) -> float:
    """Return the sum of the entries with these names, over all tables of a sample."""
    return sum(table.get(name, 0) for table in shape.values() for name in names)


def most_runs(shape: Mapping[str, Mapping[str, float]]) -> float:
    """Return the most sorted runs of a bucket of any table in a sample; 0 if that is unknown."""
    return max((table.get("runs", 0) for table in shape.values()), default=0)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return float(np.mean(found)) if found else 0.0


def _high(values: Sequence[float]) -> float:
    return float(np.percentile(values, 95)) if values else 0.0


def show(found: Mapping[str, Figures], console: Console) -> None:
    """Print the figures of several runs as a table, and the goals."""
    view = View(title="CH-benchmark: queries on tables that follow a PostgreSQL", title_justify="left")
    view.add_column("")
    for name in found:
        view.add_column(name, justify="right")
    for row in dict.fromkeys(key for figures in found.values() for key in figures):
        view.add_row(row.replace("_", " "), *(_cell(figures.get(row)) for figures in found.values()))
    console.print(view)
    for lines in goals(found):
        console.print(lines)


def as_json(found: Mapping[str, Figures]) -> dict[str, Figures]:
    """Return the figures of several runs by subject, and then by run."""
    names = dict.fromkeys(name for figures in found.values() for name in figures)
    return {name: {run: figures[name] for run, figures in found.items() if name in figures} for name in names}


def goals(found: Mapping[str, Figures]) -> list[str]:
    """Return lines with the goals and the results."""
    ours = found.get("on")
    if ours is None:
        return []
    lines = [
        f"A round in the last tenth: {ours['round_growth']:.2f} times as long as in the first (goal {ROUND_GOAL}).",
        f"Maintenance: {ours['maintenance_share']:.0%} of all CPU seconds (goal {MAINTENANCE_GOAL:.0%}).",
        f"Lag: at most {ours['lag_max_s']:.1f} s (goal {LAG_GOAL_SECONDS:g} s).",
    ]
    for name, figures in found.items():
        if name.startswith("iceberg") and figures["round_mean_s"]:
            ratio = ours["round_mean_s"] / figures["round_mean_s"]
            lines.append(f"Queries: {ratio:.2f} of the time of {name} (goal {ICEBERG_GOAL}).")
    return lines


def _cell(value: object) -> str:
    match value:
        case None:
            return "–"
        case float():
            return f"{value:,.2f}"
        case int():
            return f"{value:,}"
        case _:
            return str(value)
