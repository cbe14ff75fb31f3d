"""The commands `interbed optimizer …`: the service, its workers, the state of tables, and requests of users.

The module of a command is imported when the command is used.
"""

from importlib import import_module

import click

from interbed.catalog.client.cli.group import CatalogGroup, with_catalog

_COMMANDS = {
    "run": ("interbed.optimizer.cli.run:run", "Keep all tables of a catalog in shape, until it is stopped."),
    "status": ("interbed.optimizer.cli.status:status", "The scheduler, and the state of the tables."),
    "why": ("interbed.optimizer.cli.status:why", "The work that a table needs, and the reasons."),
    "plan": ("interbed.optimizer.cli.status:plan", "The work that would be done for a table now; nothing is changed."),
    "history": ("interbed.optimizer.cli.status:history", "The processes of the past, and their results."),
    "groups": ("interbed.optimizer.cli.status:groups", "The resource groups."),
    "workers": ("interbed.optimizer.cli.status:workers", "The workers."),
    "pause": ("interbed.optimizer.cli.status:pause", "Begin nothing more for a table."),
    "resume": ("interbed.optimizer.cli.status:resume", "Continue with a table that was paused."),
    "now": ("interbed.optimizer.cli.status:now", "Have one kind of work done next for a table."),
    "worker": ("interbed.optimizer.cli.run:worker", "Work for an optimizer that runs elsewhere."),
}
"""Place and description of each command."""


class _OptimizerCommands(CatalogGroup):
    """Imports commands when they are used: those that show state need no Thrift, those that work no rich tables."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return with_catalog(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=_OptimizerCommands)
def optimizer() -> None:
    """Keep the tables of a catalog in shape, by a service that finds the maintenance of each, and its workers."""
