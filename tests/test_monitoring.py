"""The files for Prometheus, Grafana and systemd name metrics, labels, commands and settings that exist."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import promql_parser
import pytest
import yaml  # type: ignore[import-untyped] # It has no types.

from interbed.cli import main
from interbed.optimizer.service.metrics import OptimizerMetrics
from interbed.optimizer.service.service import Leadership
from tests.support.reference_docs import server_metrics

DOCKER = Path(__file__).resolve().parents[1] / "docker"
ALERTS = DOCKER / "monitoring/alerts.yaml"
DASHBOARDS = sorted((DOCKER / "monitoring/dashboards").glob("*.json"))
OF_PROMETHEUS = {"instance", "job"}
"""Labels that Prometheus sets on every metric."""


def _metrics() -> dict[str, set[str]]:
    """Return the names of all metrics as queries have them, each with its labels."""
    found = {"up": set[str]()}
    for metric in server_metrics():
        found[metric.name] = set(metric.labels)
        if metric.kind == "histogram":
            found[f"{metric.name}_bucket"] = {*metric.labels, "le"}
    for family in OptimizerMetrics(Leadership()).collect():
        labels: tuple[str, ...] = family._labelnames  # type: ignore[attr-defined] # No value shows them without load.
        found[f"{family.name}_total" if family.type == "counter" else family.name] = set(labels)
    return found


METRICS = _metrics()


def _alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def _queries(dashboard: Path) -> Iterator[tuple[str, str]]:
    """Yield each query of a dashboard with the title of its panel; a variable has some value."""
    for panel in json.loads(dashboard.read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m")


def _selectors(node: Any) -> Iterator[promql_parser.VectorSelector]:
    """Yield the selectors of metrics in an expression of PromQL."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
        return
    for name in ("vector_selector", "expr", "lhs", "rhs", "param"):
        if (part := getattr(node, name, None)) is not None:
            yield from _selectors(part)
    for part in getattr(node, "args", ()):
        yield from _selectors(part)


def _unknown(query: str) -> list[str]:
    """Return the metrics and labels of a query that do not exist."""
    parsed = promql_parser.parse(query)
    selectors = list(_selectors(parsed))
    assert selectors, query
    known = OF_PROMETHEUS.union(*(METRICS.get(s.name or "", ()) for s in selectors))
    grouped = {label.strip() for labels in re.findall(r"\bby \(([^)]*)\)", query) for label in labels.split(",")}
    return sorted(
        [s.name or "" for s in selectors if s.name not in METRICS]
        + [f"{s.name}: {m.name}" for s in selectors for m in s.matchers.matchers if m.name not in known]
        + [f"by {label}" for label in grouped - known]
    )


@pytest.mark.parametrize("alert", [rule["alert"] for rule in _alerts()])
def test_an_alert_asks_for_metrics_that_exist(alert: str) -> None:
    (rule,) = [rule for rule in _alerts() if rule["alert"] == alert]
    assert _unknown(rule["expr"]) == []
    assert set(rule) - {"for"} == {"alert", "expr", "labels", "annotations"}
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    shown = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
    assert shown <= OF_PROMETHEUS.union(*(METRICS[s.name or ""] for s in _selectors(promql_parser.parse(rule["expr"]))))


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_asks_for_metrics_that_exist(dashboard: Path) -> None:
    queries = list(_queries(dashboard))
    assert {title: found for title, query in queries if (found := _unknown(query))} == {}
    for variable in json.loads(dashboard.read_text())["templating"]["list"]:
        for metric, label in re.findall(r"label_values\((\w+), (\w+)\)", variable["query"]):
            assert label in METRICS[metric] | OF_PROMETHEUS
            assert all(f"${label}" in query or "up{" in query or "_schedules" in query for _, query in queries)


def test_the_dashboards_show_every_metric() -> None:
    shown = " ".join(query for dashboard in DASHBOARDS for _, query in _queries(dashboard))
    assert [name for name in METRICS if name not in shown and not name.endswith(("_info", "_seconds"))] == []


def test_the_check_finds_what_does_not_exist() -> None:
    assert _unknown("rate(interbed_no_calls_total[5m]) > 0") == ["interbed_no_calls_total"]
    assert _unknown('sum by (colour) (interbed_locks{mood="good"})') == ["by colour", "interbed_locks: mood"]


def test_compose_mounts_files_that_exist() -> None:
    compose = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    mounted = [
        volume.split(":")[0]
        for service in compose["services"].values()
        for volume in service.get("volumes", ())
        if volume.startswith("./")
    ]
    assert len(mounted) >= 4
    assert [path for path in mounted if not (DOCKER / path).exists()] == []
    rules = yaml.safe_load((DOCKER / "monitoring/prometheus.yaml").read_text())
    assert [target for job in rules["scrape_configs"] for c in job["static_configs"] for target in c["targets"]] == [
        "catalog:9084"
    ]


@pytest.mark.parametrize("unit", sorted((DOCKER / "systemd").glob("*.service")), ids=lambda path: path.stem)
def test_a_unit_of_systemd_starts_a_command_that_exists(unit: Path) -> None:
    (line,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
    program, *words = line.split()
    assert program == "/opt/interbed/bin/interbed"
    command: click.Command = main
    while isinstance(command, click.Group) and not words[0].startswith("-"):
        with click.Context(command) as context:
            found = command.get_command(context, words.pop(0))
        assert found is not None
        command = found
    options = {option for parameter in command.params for option in parameter.opts}
    assert [word for word in words if word.startswith("-") and word not in options] == []
