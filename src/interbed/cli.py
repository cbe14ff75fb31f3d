"""The command line: `interbed server`, `interbed table …`, `interbed catalog …`, `interbed metastore …` and so on.

Everything that a person reads also comes as JSON with `--json`. Errors of interbed are one line on stderr and
exit code 1.
"""

import sys
from importlib import import_module
from typing import Any

import click

import interbed
from interbed.storage.base.errors import InterbedError

_COMMANDS = {
    "catalog": "interbed.catalog.cli.catalog:catalog",
    "compact": "interbed.catalog.cli.compact:compact",
    "locks": "interbed.catalog.cli.locks:locks",
    "metastore": "interbed.catalog.migration.command:metastore",
    "server": "interbed.catalog.server.start.command:server",
    "simulate": "interbed.catalog.cli.simulate:simulate_group",
    "spark": "interbed.spark_ext.cli:spark",
    "table": "interbed.catalog.cli.table:table",
}
"""Where each command is. They are imported on use: a server must not wait for what only tables need."""


class _Group(click.Group):
    """Imports commands when they are asked for, and shows interbed's errors as messages, not as tracebacks."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = _COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except InterbedError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(interbed.__version__, prog_name="interbed")
def main() -> None:
    """A catalog server, and lake tables in Apache Paimon's format."""


if __name__ == "__main__":
    sys.exit(main())
