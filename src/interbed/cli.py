"""The command line: `interbed server`, `interbed table …`, `interbed catalog …`, `interbed metastore …` and so on.

Everything that a person reads also comes as JSON with `--json`. Errors of interbed are one line on stderr and exit
code 1, wrong usage is exit code 2.
"""

import os
import sys
from importlib import import_module
from typing import Any

import click

import interbed
from interbed.catalog.client.cli.group import with_catalog
from interbed.storage.base.errors import InterbedError
from interbed.storage.base.terminal import SuggestingGroup, readable

_COMMANDS = {
    "catalog": ("interbed.catalog.client.cli.define:catalog", "Databases of a catalog."),
    "compact": (
        "interbed.catalog.client.cli.maintenance:compact",
        "Compact the tables of databases or of the whole catalog.",
    ),
    "doctor": ("interbed.doctor:doctor", "Check an installation: packages, Java, a catalog, a server."),
    "ingest": ("interbed.ingest.cli:ingest", "Bring changes of other systems into tables."),
    "locks": ("interbed.catalog.server.cli.locks:locks", "Look at the locks of a metastore and release them."),
    "metastore": (
        "interbed.catalog.server.migration.command:metastore",
        "Move metadata between metastores, put dropped objects back, issue tokens.",
    ),
    "optimizer": ("interbed.optimizer.cli:optimizer", "Keep the tables of a catalog in shape, by a service."),
    "server": ("interbed.catalog.server.process.command:server", "Run the catalog server, a Hive metastore."),
    "simulate": ("interbed.catalog.client.cli.maintenance:simulate_group", "Try out options without a table."),
    "spark": ("interbed.spark_ext.cli:spark", "Settings of Spark applications, and a planner for them."),
    "sql": ("interbed.catalog.client.cli.sql:sql", "Query tables in SQL, by DuckDB."),
    "table": ("interbed.catalog.client.cli.table:table", "Create, read, write, change and maintain tables."),
}
"""Where each command is, and what the list of commands says of it. They are imported on use: a server must not wait for
what only tables need, and `--help` for nothing."""

_OF_A_CATALOG = frozenset({"catalog", "compact", "doctor", "ingest", "optimizer", "sql", "table"})


def _what_was_committed() -> str:
    # A command that wrote nothing has not loaded what commits.
    committed = sys.modules.get("interbed.storage.commit.committed")
    return "No snapshot was committed." if committed is None else str(committed.PROGRESS.text)


class _CommandGroup(SuggestingGroup):
    """Imports commands when they are asked for, and shows interbed's errors as messages, not as tracebacks."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        # No command multiplies matrices; threads that wait for some to come take more than the start of most commands.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in self.list_commands(ctx)])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if name not in _OF_A_CATALOG and (ctx.obj.name or ctx.obj.options):
            raise click.UsageError(f"'interbed {name}' works on no catalog; give it no --catalog and no --option.", ctx)
        return name, command, rest

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except InterbedError as error:
            raise click.ClickException(readable(str(error))) from error
        except KeyboardInterrupt as error:
            raise click.ClickException(f"Interrupted. {_what_was_committed()}") from error


@click.group(cls=_CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(interbed.__version__, prog_name="interbed")
def main() -> None:
    """A catalog server, and lake tables in Apache Paimon's format.

    interbed catalog -o warehouse=file:/tmp/lake create-database shop

    A catalog is chosen by -o KEY=VALUE or, once it is in ~/.interbed.toml, by --catalog NAME; before the command or
    after it.
    """


with_catalog(main)


if __name__ == "__main__":
    sys.exit(main())
