"""Statements of docs/operating.md hold for the code."""

import json
import re

from prometheus_client.parser import text_string_to_metric_families

from interbed.catalog.server.ops.metrics import DatabaseFigures, MetricsPage, ServerMetrics
from interbed.catalog.server.setting_kinds import ENVIRONMENT_PREFIX
from interbed.catalog.server.settings import SETTINGS
from tests.support.operating_docs import PAGE, settings_table, with_settings


def test_the_table_of_settings_matches_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert settings_table() in page, "run python -m tests.support.operating_docs"
    assert with_settings(page) == page


def test_settings_named_in_the_text_exist() -> None:
    page = PAGE.read_text(encoding="utf-8")
    options = set(re.findall(r"(?<=\s--)[a-z-]+(?= )", page.split("## Locks")[0])) - {"config", "hive-site", "profile"}
    assert {name.replace("-", "_") for name in options} <= set(SETTINGS)
    variables = set(re.findall(rf"{ENVIRONMENT_PREFIX}[A-Z_]+", page)) - {
        "INTERBED_SERVER_CONFIG",
        "INTERBED_SERVER_HIVE_SITE",
        ENVIRONMENT_PREFIX,
    }
    assert variables <= {setting.variable for setting in SETTINGS.values()}


def test_the_list_of_metrics_matches_the_code() -> None:
    figures = DatabaseFigures(locks_acquired=0, locks_waiting=0, locks_stale=0, locks_expired_total=0, event_id=0)
    rendered = MetricsPage(ServerMetrics(), lambda: figures, lambda: 1).render().decode()
    families = [family for family in text_string_to_metric_families(rendered) if family.name.startswith("interbed_")]
    # The parser removes the suffixes of counters' names.
    exposed = {family.name + ("_total" if family.type == "counter" else "") for family in families}
    documented = set(re.findall(r"`(interbed_[a-z_]+)`", PAGE.with_name("metrics.md").read_text(encoding="utf-8")))
    assert documented == exposed


def test_the_example_of_an_audit_line_is_json() -> None:
    [example] = re.findall(r"```json\n(.*?)\n```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert json.loads(example)["outcome"] == "ok"
