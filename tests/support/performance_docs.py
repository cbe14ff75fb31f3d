"""The figures of docs/performance.md: `make bench ARGS=--json > bench.json` measures them, and

    python -m tests.support.performance_docs bench.json

writes them into the page, with the machine, the date and the command. Run it on the machine that measured.
"""

import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import interbed

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
BEGIN = "<!-- figures: made by python -m tests.support.performance_docs -->"
END = "<!-- end of figures -->"
OURS = "interbed"

_TITLES = {
    "stages": "Tables in Python",
    "spark": "Spark",
    "formats": "File formats",
    "reads": "Lookups, planning, deletion vectors",
    "java": "Beside Java Paimon",
    "memory": "Peaks of memory",
    "soak": "A long run",
    "metastore": "Catalog servers",
    "partitions": "A million partitions",
    "safety": "What safety costs",
}


def machine() -> str:
    """One line about this machine: system, processor, cores, memory, Python."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return (
        f"{platform.system()} on {platform.machine()}, {os.cpu_count()} cores, "
        f"{round(pages * size / 2**30)} GiB of memory, "
        f"Python {platform.python_version()}, interbed {interbed.__version__}"
    )


def figures_text(found: Mapping[str, Any], *, where: str, when: datetime, command: str) -> str:
    """The figures of one run as Markdown: a table for each section that was measured."""
    lines = [f"Measured on {when:%Y-%m-%d} with `{command}`: {where}. Rows: {found['rows']:,}."]
    for section, figures in found.items():
        if section != "rows" and figures:
            lines += ["", f"### {_TITLES.get(section, section.capitalize())}", "", *_table(figures)]
    return "\n".join(lines)


def with_figures(page: str, text: str) -> str:
    """The page with its figures replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def _table(figures: Any) -> list[str]:
    rows = list(_with_ratios(dict(_leaves(figures))))
    columns = list(dict.fromkeys(name for _, values in rows for name in values))
    lines = [f"| | {' | '.join(f'`{c}`' for c in columns)} |", "|---|" + "---:|" * len(columns)]
    return lines + [f"| {', '.join(path)} | {' | '.join(_cell(v.get(c)) for c in columns)} |" for path, v in rows]


def _leaves(figures: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """The innermost groups of plain values by their path; lists are numbered from 1."""
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
    """Peers get the ratio of their seconds to those of interbed for the same work."""
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
    """Write the page from the file that is named."""
    source = Path(sys.argv[1])
    when = datetime.fromtimestamp(source.stat().st_mtime, UTC)
    text = figures_text(json.loads(source.read_text()), where=machine(), when=when, command="make bench")
    PAGE.write_text(with_figures(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")


if __name__ == "__main__":
    main()
