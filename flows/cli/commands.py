"""Base classes of all commands, and options that are made from the fields of a flow's pydantic model.

A command lists the fields that it offers, nested ones by their path (`spending.max_calls`); type, bounds, default and
help are the field's own, and a `Flag` names only what differs. Help is plain text, which fits any width.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from keyword import iskeyword
from pathlib import Path
from shutil import get_terminal_size
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Union, cast, get_args, get_origin

import typer
from pydantic import ValidationError
from pydantic_core import PydanticUndefined
from typer.core import TyperCommand, TyperGroup

from flows.cli.output import REFUSED, fail, plain_errors
from flows.running.config_reading import explain_errors, explain_removal

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo


ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="YAML file of the flow's parameters; options override it.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any parameter of the flow, by its dotted name; may be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout; everything else goes to stderr.")]

PIPELINES, SERVICE, UPKEEP = "Pipelines", "Service", "Upkeep"
SECTIONS = (PIPELINES, SERVICE, UPKEEP, None)
"""Sections of `trivet --help`, in order; None: commands without a section."""


class Help:
    """Part of commands and groups that writes their help as wide as the terminal, in a narrow one too."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help; names of options take at most a third of the width, as click's 30 columns leave no room."""
        formatter.width = min(formatter.width, get_terminal_size().columns)
        formatter.write_dl = partial(formatter.write_dl, col_max=min(30, formatter.width // 3))
        super().format_help(ctx, formatter)  # pyright: ignore[reportAttributeAccessIssue] of the class beside it


class Command(Help, TyperCommand):
    """A command whose options may be spelled with `_` or `-`, with short type names in its help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, with every option in its declared spelling; one of an earlier version is refused."""
        spellings = {option for param in self.params for option in (*param.opts, *param.secondary_opts)}
        path, declared = _command_path(ctx), list[str]()
        for word, following in zip(args, [*args[1:], ""], strict=False):
            flag, equals, value = word.partition("=")
            dashed = flag.replace("_", "-")
            removal = explain_removal("format", f"{path} {dashed} {value or following}")
            if not removal and dashed not in spellings:
                removal = explain_removal("option", f"{path} {dashed}")
            if removal:
                fail(removal, REFUSED)
            declared.append(f"{dashed}{equals}{value}" if dashed in spellings else word)
        with plain_errors():
            return super().parse_args(ctx, declared)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; expected errors end it with one sentence."""
        with plain_errors():
            return super().invoke(ctx)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, with short type names; a switch, which takes no value, gets none."""
        params: list[Any] = super().get_params(ctx)
        for param in params:
            if param.metavar is None and param.param_type_name == "option":
                kind = param.type_descriptor.annotation
                [inner] = get_args(kind)[:1] or [kind]  # `list[Path]`: the Path
                if getattr(param, "is_flag", False):
                    param.metavar = ""
                elif param.min is not None or param.max is not None:
                    param.metavar = "N"
                elif getattr(inner, "__name__", "") in ("str", "Path"):
                    param.metavar = "PATH" if inner.__name__ == "Path" else "TEXT"
        return params


class Group(Help, TyperGroup):
    """A group whose help shows the first paragraph of each command's help."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; one of an earlier version, or of a group, is refused with its name now."""
        name = f"{_command_path(ctx)} {args[0]}".strip()
        if args[0] not in self.commands and (removal := explain_removal("command", name)):
            fail(removal, REFUSED)
        groups = [group for group, inner in self.commands.items() if args[0] in getattr(inner, "commands", ())]
        if groups and args[0] not in self.commands:
            fail(f"no command {args[0]}, but {' or '.join(f'`trivet {group} {args[0]}`' for group in groups)}", REFUSED)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the help's list of commands, each under the heading of its section."""
        commands = [(name, command) for name in self.list_commands(ctx) if (command := self.get_command(ctx, name))]
        for section in SECTIONS:
            rows = [
                (name, " ".join((command.help or "").partition("\n\n")[0].split()))
                for name, command in commands
                if (getattr(command, "rich_help_panel", None) or None) == section  # typer's placeholder is false
            ]
            if rows:
                with formatter.section(section or "Commands"):
                    formatter.write_dl(rows)


class App(typer.Typer):
    """A typer application whose commands are `Command`s and whose groups are `Group`s."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=Group, no_args_is_help=True, rich_markup_mode=None, **settings)

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = None, **settings: Any
    ) -> Callable[..., Any]:
        """Register a function as a command of the class `Command`."""
        return super().command(name, cls=cls or Command, **settings)


def _command_path(ctx: Any) -> str:
    """Return the names of the groups and the command below `trivet`: `rag index`."""
    return ctx.command_path.partition(" ")[2]


OptionValues = Mapping[str, Any]
"""Values of a command line: path of the field → value."""


class Flag(NamedTuple):
    """Properties of a command-line option that differ from those of the configuration field that it sets."""

    names: str = ""
    """Spellings, such as `--pool-size --candidate-num`, the usual one first; empty: `--` and the field's name."""
    type: Any = None
    """Type of the typed value, if the command converts it to that of the field."""
    default_text: str | None = None
    """The default as help shows it, if it depends on other options; `{usual}` is that of the field."""
    help: str | None = None
    """Replaces the docstring of the field."""
    metavar: str | None = None
    min: float | None = None
    max: float | None = None
    callback: Callable[..., Any] | None = None
    """Checks the typed value before the command starts."""
    envvar: str | None = None

    def spellings(self, path: str) -> list[str]:
        """Return the spellings of the option for the field at `path`."""
        return self.names.split() or [f"--{path.rpartition('.')[2].replace('_', '-')}"]

    def name(self, path: str) -> str:
        """Return the name of the option in Python and YAML."""
        name = self.spellings(path)[0].partition("/")[0].removeprefix("--").replace("-", "_")
        return f"{name}_" if iskeyword(name) else name


@dataclass(frozen=True)
class Options:
    """The options of a command; one that is not given is None, and leaves its field to a file and to the default."""

    config: str
    """The model, `package.module:Class`; imported when the options are first needed."""
    flags: Mapping[str, Flag]
    """Path of the field → differences of the option, in the order of the help."""

    @cached_property
    def model(self) -> type[BaseModel]:
        """The pydantic model of the configuration, imported at first use."""
        module, _, name = self.config.partition(":")
        return getattr(importlib.import_module(module), name)

    def parameter(self, path: str, flag: Flag) -> inspect.Parameter:
        """Return the option of the field at `path`, as the keyword-only parameter from which typer makes it."""
        field, usual = self._field(path)
        limits = [
            (side, getattr(constraint, side, None))
            for constraint in (field.metadata if field else ())
            for side in ("ge", "le")
        ]
        bounds = {side: limit for side, limit in limits if limit is not None}
        kind = flag.type or (_without_none(field.annotation) if field else str)
        if get_origin(kind) is tuple:
            kind = list[get_args(kind)[0]]  # which may be repeated
        default = None if flag.default_text or flag.type else usual  # shown as a text, or not of the option's type
        default_text = flag.default_text or "{usual}"
        if flag.type is str and isinstance(usual, tuple):
            usual = ",".join(map(str, cast("tuple[Any, ...]", usual)))
        option = typer.Option(
            *flag.spellings(path),
            help=flag.help or (field.description if field else None),
            metavar=flag.metavar,
            envvar=flag.envvar,
            min=bounds.get("ge") if flag.min is None else flag.min,
            max=bounds.get("le") if flag.max is None else flag.max,
            callback=flag.callback,
            show_default=default_text.format(usual=usual)
            if default is None and (flag.default_text or usual is not None)
            else True,
        )
        return inspect.Parameter(
            flag.name(path),
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[kind | None if default is None else kind, option],
        )

    def spell(self, path: str) -> str:
        """Return the field at `path` as users of the command give it: `--chunk-chars`, or for `--set` its path."""
        return self.flags[path].spellings(path)[0].partition("/")[0] if path in self.flags else path

    def _field(self, path: str) -> tuple[FieldInfo | None, Any]:
        """Return the field at `path`, None in a table, and its default, an outer one before its own; None if unset."""
        model: Any = self.model
        field: FieldInfo | None = None
        usual: Any = None
        for part in path.split("."):
            field = getattr(_without_none(model), "model_fields", {}).get(part)
            own = field.get_default(call_default_factory=True) if field else None
            usual = getattr(usual, part, own)
            model = field.annotation if field else None
        return field, None if usual is PydanticUndefined or usual in ((), {}) else usual


class ConfigCommand(Command):
    """A command with the options of a configuration, which is imported only when they are needed."""

    @cached_property
    def _whole(self) -> Any:
        app = typer.Typer(add_completion=False)
        bare = cast("Callable[[], Callable[..., Any]]", getattr(self._bare, "with_options"))  # noqa: B009 set by `command`
        app.command(cls=Command)(bare())
        return typer.main.get_command(app)

    @property
    def params(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._whole.params

    @params.setter
    def params(self, _: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Ignore the assignment: the parameters that typer found are among those of the whole command."""

    @property
    def callback(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._whole.callback

    @callback.setter
    def callback(self, bare: Any) -> None:
        self._bare = bare


def command(
    app: typer.Typer,
    name: str,
    options: Options,
    *,
    cls: type[ConfigCommand] = ConfigCommand,
    help: str | None = None,
    panel: str | None = None,
    hidden: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command: its first parameter receives the options as `OptionValues`."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        """Register the function, and return it unchanged; its options are made when the command is read."""

        @wraps(function)
        def bare() -> None:
            raise AssertionError("the options of a configuration replace this before it is called")

        bare.__signature__ = inspect.Signature()  # pyright: ignore[reportAttributeAccessIssue]
        bare.__dict__["with_options"] = partial(_with_options, function, options)
        app.command(name, cls=cls, help=help, rich_help_panel=panel, hidden=hidden)(bare)
        return function

    return decorate


@contextmanager
def report_invalid(options: Options) -> Generator[None]:
    """End the command with a sentence for each parameter that its configuration refuses."""
    try:
        yield
    except ValidationError as error:
        fail(explain_errors(error, options.spell), REFUSED)


def _with_options(function: Callable[..., None], options: Options) -> Callable[..., None]:
    """Return the function with a parameter per option, as typer reads them; untyped options reach it as None."""
    _, *parameters = inspect.signature(function, eval_str=True).parameters.values()
    paths = {flag.name(path): path for path, flag in options.flags.items()}

    def run(ctx: typer.Context, **values: Any) -> None:
        """Call the function with the typed options by path, None for the others, and with its own parameters."""
        # from the command line or a variable; a default is left to the file and the model
        typed = {name for name in values if getattr(ctx.get_parameter_source(name), "name", "") != "DEFAULT"}
        option_values: dict[str, Any] = {}
        for name, path in paths.items():
            value = values.pop(name)
            option_values[path] = value if name in typed else None
        function(option_values, **values)

    arguments = [parameter for parameter in parameters if parameter.default is inspect.Parameter.empty]
    defaulted = [parameter for parameter in parameters if parameter.default is not inspect.Parameter.empty]
    option_parameters = [options.parameter(path, flag) for path, flag in options.flags.items()]
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    ordered = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in (context, *arguments, *option_parameters, *defaulted)
    ]
    run.__doc__ = function.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in ordered}
    run.__signature__ = inspect.Signature(ordered)  # pyright: ignore[reportFunctionMemberAccess]
    return run


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) not in (Union, type(int | None)):  # `Optional[X]` and `X | None` differ in their origin
        return annotation
    [inner] = [member for member in get_args(annotation) if member is not NoneType]
    return inner
