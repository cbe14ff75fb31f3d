"""`interbed catalog functions list | show | create | alter | drop`: the functions of a catalog on a REST server.

Parameters are written as columns: `x DOUBLE`. A definition in SQL is an expression over the parameters. Definitions of
other kinds are given as JSON, in the form that `show --json` prints.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from interbed.catalog.client.cli.group import (
    CatalogChoice,
    CatalogGroup,
    done,
    json_flag,
    pairs,
    show_json,
)
from interbed.storage.base.errors import CorruptFileError, InvalidInputError
from interbed.storage.base.terminal import print_line, print_lines

if TYPE_CHECKING:
    from interbed.catalog.client.functions import CatalogFunction, FunctionDefinition
    from interbed.storage.base.types.data_type import DataField

_name = click.argument("name", metavar="DATABASE.FUNCTION")

_sql = click.option(
    "--sql",
    "sql_definitions",
    multiple=True,
    metavar="ENGINE=EXPRESSION",
    help="A definition in SQL, such as spark='x * y'; `sql` stands for every engine without one of its own.",
)

_json_definitions = click.option(
    "--definition",
    "json_definitions",
    multiple=True,
    metavar="ENGINE=JSON",
    help='A definition of another kind: {"type": "lambda", "definition": …, "language": …} or {"type": "file", …}.',
)


@click.group(cls=CatalogGroup)
def functions() -> None:
    """Work on the functions of a catalog, which a REST server keeps.

    interbed catalog functions create shop.area --param 'x DOUBLE' --param 'y DOUBLE' --returns DOUBLE --sql sql='x * y'
    """


@functions.command(name="list")
@click.argument("database", metavar="DATABASE")
@json_flag
@click.pass_obj
def list_functions(chosen: CatalogChoice, database: str, as_json: bool) -> None:
    """List the names of the functions of a database."""
    with chosen.catalog(database) as catalog:
        found = catalog.list_functions(database)
    if as_json:
        show_json(found)
    else:
        print_lines(found, empty="no functions")


@functions.command()
@_name
@json_flag
@click.pass_obj
def show(chosen: CatalogChoice, name: str, as_json: bool) -> None:
    """Show the parameters, the result and the definitions of a function."""
    from interbed.catalog.client.functions import FunctionName

    with chosen.catalog() as catalog:
        found = catalog.get_function(name)
    shown = found.to_json(FunctionName.of(name).function)
    if as_json:
        show_json(shown)
        return
    print_line(found.signature(name))
    if found.comment:
        print_line(f"  comment: {found.comment}")
    if not found.deterministic:
        print_line("  not deterministic")
    for engine, definition in shown["definitions"].items():
        kind = definition.pop("type")
        text = definition["definition"] if kind == "sql" else json.dumps(definition)
        print_line(f"  {engine} ({kind}): {text}")
    for key, value in sorted(found.options.items()):
        print_line(f"  option {key} = {value}")


@functions.command()
@_name
@click.option("--param", "params", multiple=True, metavar="'NAME TYPE'", help="A parameter, such as 'x DOUBLE'.")
@click.option("--returns", metavar="TYPE", help="The type of the result.")
@_sql
@_json_definitions
@click.option(
    "--from",
    "source",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Take all of it from a file with the JSON that `show --json` prints.",
)
@click.option("--not-deterministic", is_flag=True, help="It may return another result for the same arguments.")
@click.option("--comment", metavar="TEXT", help="What it is for.")
@click.option("--set-option", multiple=True, metavar="KEY=VALUE", help="An option of the function; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing when there is one of that name.")
@json_flag
@click.pass_obj
def create(
    chosen: CatalogChoice,
    name: str,
    params: Sequence[str],
    returns: str | None,
    sql_definitions: Sequence[str],
    json_definitions: Sequence[str],
    source: Path | None,
    not_deterministic: bool,
    comment: str | None,
    set_option: Sequence[str],
    if_not_exists: bool,
    as_json: bool,
) -> None:
    """Create a function from options, or from a file."""
    from interbed.catalog.client.functions import CatalogFunction, FunctionName

    wanted = FunctionName.of(name)
    given: tuple[object, ...] = (params, returns, sql_definitions, json_definitions, comment, set_option)
    if source is not None:
        if any(given) or not_deterministic:
            raise click.UsageError("--from takes all of the function from the file; leave out the options about it.")
        function = _function_of_file(source)
    else:
        function = CatalogFunction(
            definitions=_definitions(sql_definitions, json_definitions),
            input_params=_parameters(params),
            return_params=None if returns is None else _parameters([f"result {returns}"]),
            deterministic=not not_deterministic,
            comment=comment,
            options=pairs(set_option, hint="--set-option"),
        )
    with chosen.catalog(wanted.database) as catalog:
        made = not (if_not_exists and wanted.function in catalog.list_functions(wanted.database))
        if made:
            catalog.create_function(wanted, function, if_not_exists)
    text = f"created the function {wanted}" if made else f"there is a function {wanted} already"
    done(text, {"function": str(wanted), "created": made}, as_json)


@functions.command()
@_name
@_sql
@_json_definitions
@click.option("--drop-definition", multiple=True, metavar="ENGINE", help="Remove the definition of this name.")
@click.option("--set-option", multiple=True, metavar="KEY=VALUE", help="An option of the function; repeatable.")
@click.option("--remove-option", multiple=True, metavar="KEY", help="Remove an option; repeatable.")
@click.option("--comment", metavar="TEXT", help="What it is for; an empty text removes it.")
@json_flag
@click.pass_obj
def alter(
    chosen: CatalogChoice,
    name: str,
    sql_definitions: Sequence[str],
    json_definitions: Sequence[str],
    drop_definition: Sequence[str],
    set_option: Sequence[str],
    remove_option: Sequence[str],
    comment: str | None,
    as_json: bool,
) -> None:
    """Change a function: all given changes, or none. A definition is added, or replaces the one of its name."""
    from interbed.catalog.client.functions import FunctionChange

    definitions = _definitions(sql_definitions, json_definitions)
    changes = [FunctionChange.drop_definition(engine) for engine in drop_definition]
    with chosen.catalog() as catalog:
        present = catalog.get_function(name).definitions
        for engine, definition in definitions.items():
            replaces = engine in present and engine not in drop_definition
            change = FunctionChange.update_definition if replaces else FunctionChange.add_definition
            changes.append(change(engine, definition))
        changes += [FunctionChange.set_option(*pair) for pair in pairs(set_option, hint="--set-option").items()]
        changes += [FunctionChange.remove_option(key) for key in remove_option]
        if comment is not None:
            changes.append(FunctionChange.update_comment(comment or None))
        if not changes:
            raise click.UsageError("Give at least one change, such as --sql spark='x * y'.")
        catalog.alter_function(name, changes)
    done(f"changed the function {name}", {"function": name, "changes": len(changes)}, as_json)


@functions.command()
@_name
@click.option("--if-exists", is_flag=True, help="Do nothing when there is none of that name.")
@json_flag
@click.pass_obj
def drop(chosen: CatalogChoice, name: str, if_exists: bool, as_json: bool) -> None:
    """Drop a function with all of its definitions."""
    from interbed.catalog.client.functions import FunctionName

    wanted = FunctionName.of(name)
    with chosen.catalog() as catalog:
        dropped = not if_exists or wanted.function in catalog.list_functions(wanted.database)
        if dropped:
            catalog.drop_function(wanted, if_exists)
    text = f"dropped the function {wanted}" if dropped else f"there is no function {wanted}"
    done(text, {"function": str(wanted), "dropped": dropped}, as_json)


def _parameters(texts: Sequence[str]) -> "tuple[DataField, ...]":
    from interbed.catalog.client.cli.forms.column_text import numbered_columns, parse_column

    return numbered_columns(map(parse_column, texts))


def _definitions(sql: Sequence[str], by_json: Sequence[str]) -> "dict[str, FunctionDefinition]":
    """Return the definitions by the names of their engines; raise UsageError for two of one name."""
    from interbed.catalog.client.functions import FunctionDefinition

    found: dict[str, FunctionDefinition] = {}
    texts = pairs(sql, form="ENGINE=EXPRESSION", hint="--sql")
    values = pairs(by_json, form="ENGINE=JSON", hint="--definition")
    if len(texts) + len(values) != len(sql) + len(by_json) or texts.keys() & values.keys():
        raise click.UsageError("An engine has one definition; give each name once.")
    for engine, text in texts.items():
        found[engine] = FunctionDefinition.of_sql(text)
    for engine, text in values.items():
        try:
            found[engine] = FunctionDefinition.from_json(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise click.BadParameter(
                f"{text!r} is no definition: {error!r}. Its 'type' is sql, lambda or file, as `interbed catalog "
                "functions show --json` prints it.",
                param_hint="--definition",
            ) from error
    return found


def _function_of_file(source: Path) -> "CatalogFunction":
    from interbed.catalog.client.functions import CatalogFunction

    try:
        value: Any = json.loads(source.read_text(encoding="utf-8"))
        return CatalogFunction.from_json(value, source=str(source))
    except (ValueError, AttributeError, CorruptFileError) as error:
        raise InvalidInputError(
            f"{source} holds no function: {error}. It is an object as `interbed catalog functions show --json` "
            "prints it."
        ) from error
