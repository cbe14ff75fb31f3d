"""Commands print no control characters from a table's contents, except line ends of their own."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import interbed
from interbed.catalog.server.ops.metrics import MetricsPage, ServerMetrics
from interbed.cli import main
from interbed.optimizer.cli.common import print_facts, print_table
from interbed.storage.base.terminal import markup_of, print_line, print_lines, print_text

FORGED = "a\x1b[2Jb\r\nforged\x9b31m\u202e\x07[/x]"
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]")

COMMANDS = (
    "table describe d.t",
    "table schema d.t",
    "table head d.t",
    "table snapshots d.t",
    "table levels d.t",
    "table levels d.t --summary",
    "table health d.t --all",
    "table changes d.t",
    "table list d",
    "table branches d.t",
    "table consumers d.t",
    "table compact d.t --dry-run",
    "table fsck d.t",
    "table scan d.t",
    "table explain d.t",
    "table get d.t id=2 p=b",
    "table create-tag d.t newest",
    "catalog config",
    "catalog list",
)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a lake with a table whose texts hold control characters: comments, values of partitions and rows, an
    option.
    """
    root = tmp_path_factory.mktemp("printing")
    with interbed.load_catalog("lake", warehouse=str(root)) as catalog:
        catalog.create_database("d", properties={"note": FORGED})
        fields: list[pa.Field[Any]] = [
            pa.field("id", pa.int64()),
            pa.field("p", pa.string(), metadata={"comment": FORGED}),
            pa.field("v\x1b", pa.string()),
        ]
        schema = pa.schema(fields)
        table = catalog.create_table(
            "d.t",
            schema,
            primary_keys=["p", "id"],
            partition_keys=["p"],
            options={"bucket": "1", "owner.note": FORGED},
            comment=FORGED,
        )
        rows = pa.table({"id": [1, 2], "p": [FORGED, "b"], "v\x1b": [FORGED, None]}, schema=schema)
        table.upsert(rows)
        table.upsert(rows)
    return root


@pytest.mark.parametrize("command", COMMANDS)
def test_contents_of_a_table_print_no_control_characters(warehouse: Path, command: str) -> None:
    group, *arguments = command.split(" ")
    result = CliRunner().invoke(main, [group, "-o", f"warehouse={warehouse}", *arguments])
    assert result.exit_code == 0, result.output
    assert result.output
    assert CONTROLS.search(result.output) is None, result.output
    assert not any(line.startswith("forged") for line in result.output.splitlines())


def test_an_error_that_quotes_a_text_prints_no_control_characters(warehouse: Path) -> None:
    for name in ("d.x\x1b[2J", "d\x9b.t", "\x1b]0;title\x07.t"):
        result = CliRunner().invoke(main, ["table", "-o", f"warehouse={warehouse}", "describe", name])
        assert result.exit_code != 0
        assert CONTROLS.search(result.output) is None


def test_line_ends_of_the_output_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("one\ntwo\x1b")
    print_lines(["one\ntwo", "three"], empty="none")
    print_lines([], empty="none")
    print_text("one\ntwo\x1b")
    print_table(["name"], [["one\ntwo\x1b"], [("x\x9b", "bold")]])
    print_facts([("name", "one\ntwo\x1b")])
    output = capsys.readouterr().out
    assert CONTROLS.search(output) is None
    assert output.startswith("one\\ntwo\\u001b\none\\ntwo\nthree\nnone\none\ntwo\\u001b\n")
    assert markup_of("[/x]\n") == "\\[/x]\\n"


def test_labels_of_metrics_are_printed_on_one_line() -> None:
    from interbed.catalog.server.thrift.edge.call import Call, CallOutcome, ClientSession

    metrics = ServerMetrics()
    for name in (FORGED, 'a"} 1\nforged{x="', "\ud800", "\\"):
        metrics.observed(
            Call(
                request_id="1",
                method=name,
                session=ClientSession(peer="here"),
                seconds=0.1,
                outcome=CallOutcome.UNKNOWN,
                error=None,
                arguments=None,
            )
        )
    text = MetricsPage(metrics, lambda: None, lambda: 1).render().decode()
    assert CONTROLS.search(text) is None
    assert not any(line.startswith("forged") for line in text.splitlines())
