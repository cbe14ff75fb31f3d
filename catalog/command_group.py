"""A group of commands of the command line, which says what a misspelt command may have meant."""

import click

from interbed.storage.base.suggestion import did_you_mean


class SuggestingGroup(click.Group):
    """A group that says which of its commands a misspelt name is near to."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not (ctx.resilient_parsing or name.startswith("-")) and self.get_command(ctx, name) is None:
            ctx.fail(f"No such command '{name}'.{did_you_mean(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)
