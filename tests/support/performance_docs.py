"""Figures of docs/performance.md and docs/performance-history.md. `make bench ARGS=--json > bench.json` measures them:

    python -m tests.support.performance_docs bench.json

keeps them as a file of docs/figures, named by day and commit, and writes both pages. The first page has the newest
figures of each section and a picture, the second page those of all kept runs.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.performance_picture import draw_costs

DOCS = Path(__file__).parents[2] / "docs"
FIGURES = DOCS / "figures"
BEGIN = "<!-- figures: made by python -m tests.support.performance_docs -->"
END = "<!-- end of figures -->"
OURS = "interbed"
RUNS_SHOWN = 8
DRAWN = frozenset({"ch over time", "iceberg updates"})
"""Sections that are drawn as pictures and have no tables."""

_TITLES = {
    "stages": "Tables in Python",
    "spark": "Spark",
    "ingest": "From Kafka into a table",
    "formats": "File formats",
    "reads": "Lookups, planning, deletion vectors",
    "java": "Beside Java Paimon",
    "memory": "Peaks of memory",
    "soak": "A long run",
    "metastore": "Catalog servers",
    "partitions": "A million partitions",
    "at size": "A catalog with many tables, and 64 clients",
    "scale": "A table that grows",
    "commits": "Many commits",
    "safety": "What safety costs",
    "balance": "Unequal buckets shared by two",
    "stores": "A table in a store",
    "iceberg": "Iceberg tables with deletes",
    "iceberg rewrites": "Iceberg tables kept fast",
    "ch": "Transactions and queries at once",
}


def figures_text(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the figures of each section as Markdown, from the newest run that measured it; `runs` are oldest first."""
    newest = {section: (run, figures) for run in runs for section, figures in _sections(run)}
    lines: list[str] = []
    for section, (run, figures) in sorted(newest.items(), key=lambda item: _place(item[0])):
        lines += [
            f"### {_title(section)}",
            "",
            f"Measured on {datetime.fromisoformat(run['when']):%Y-%m-%d} with `{run['command']}` at `{run['commit']}`: "
            f"{run['machine']}. Rows: {run['rows']:,}.",
            "",
            *_table(figures),
            "",
        ]
    return "\n".join(lines).rstrip()


def history_text(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return seconds and ratios of the runs, oldest first, as Markdown: a table for each section that has seconds.

    Runs without any seconds are left out.
    """
    shown = [run for run in runs if any(_seconds(figures) for _, figures in _sections(run))][-RUNS_SHOWN:]
    lines = ["| commit | day | command | machine |", "|---|---|---|---|"]
    lines += [f"| `{r['commit']}` | {r['when'][:10]} | `{r['command']}` | {r['machine']} |" for r in shown]
    commits = [f"`{run['commit']}`" for run in shown]
    by_run = [{section: _seconds(figures) for section, figures in _sections(run)} for run in shown]
    for section in dict.fromkeys(name for run in by_run for name in run):
        rows = dict.fromkeys(path for run in by_run for path in run.get(section, {}))
        if not rows:
            continue
        lines += ["", f"### {_title(section)}", ""]
        lines += [f"| | {' | '.join(commits)} |", "|---|" + "---:|" * len(shown)]
        for path in rows:
            cells = [run.get(section, {}).get(path, "") for run in by_run]
            lines.append(f"| {', '.join(path)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def with_figures(page: str, text: str) -> str:
    """Return the page with its figures replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def kept_runs(folder: Path = FIGURES) -> list[dict[str, Any]]:
    """Return the kept runs, oldest first."""
    found: list[dict[str, Any]] = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    return sorted(found, key=lambda run: str(run["when"]))


def _sections(found: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return (
        (name, value) for name, value in found.items() if isinstance(value, dict | list) and value and name not in DRAWN
    )


def _place(section: str) -> int:
    return list(_TITLES).index(section) if section in _TITLES else len(_TITLES)


def _title(section: str) -> str:
    return _TITLES.get(section, section.capitalize())


def _table(figures: Any) -> list[str]:
    rows = list(_with_ratios(dict(_leaves(figures))))
    columns = list(dict.fromkeys(name for _, values in rows for name in values))
    lines = [f"| | {' | '.join(f'`{c}`' for c in columns)} |", "|---|" + "---:|" * len(columns)]
    return lines + [f"| {', '.join(path)} | {' | '.join(_cell(v.get(c)) for c in columns)} |" for path, v in rows]


def _seconds(figures: Any) -> dict[tuple[str, ...], str]:
    """Return CPU seconds by path; figures of peers have the ratio to interbed."""
    found = {}
    for path, values in _with_ratios(dict(_leaves(figures))):
        if "cpu_s" in values:
            ratio = f" ({_cell(values['ratio'])}x)" if "ratio" in values else ""
            found[path] = f"{_cell(values['cpu_s'])}{ratio}"
    return found


def _leaves(figures: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yield the innermost groups of plain values by their path; list elements are numbered from 1."""
    if isinstance(figures, list):
        figures = {str(number): item for number, item in enumerate(figures, 1)}
    plain = {k: v for k, v in figures.items() if not isinstance(v, dict | list)}
    if plain:
        yield path, plain
    for name, inner in figures.items():
        if isinstance(inner, dict | list):
            yield from _leaves(inner, (*path, name))


def _with_ratios(
    leaves: dict[tuple[str, ...], dict[str, Any]],
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yield the groups; those of peers get the ratio of their seconds to the seconds of interbed for the same work."""
    for path, values in leaves.items():
        ours = leaves.get((*path[:-1], OURS), {}) if path and path[-1] != OURS else {}
        if ours.get("cpu_s") and values.get("cpu_s"):
            values = {**values, "ratio": values["cpu_s"] / ours["cpu_s"]}
        yield path, values


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case float():
            return f"{value:,.3f}" if abs(value) < 10 else f"{value:,.0f}"
        case int() if not isinstance(value, bool):
            return f"{value:,}"
        case _:
            return str(value)


def main() -> None:
    """Keep the named run, and write the pages."""
    run = json.loads(Path(sys.argv[1]).read_text())
    FIGURES.mkdir(exist_ok=True)
    (FIGURES / f"{run['when'][:10]}-{run['commit']}.json").write_text(json.dumps(run, indent=1) + "\n")
    runs = kept_runs()
    for name, text in (("performance.md", figures_text(runs)), ("performance-history.md", history_text(runs))):
        page = DOCS / name
        page.write_text(with_figures(page.read_text(encoding="utf-8"), text), encoding="utf-8")
    draw_costs(runs, DOCS / "images" / "costs.svg")


if __name__ == "__main__":
    main()
