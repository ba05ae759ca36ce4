"""How all commands read their options and show their help.

`--data_dir` is `--data-dir`. Help is plain text: an option and its type stand whole on a line at any width, which
typer's tables of five columns cannot promise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout; everything else goes to stderr.")]

PIPELINES, SERVICE, UPKEEP = "Pipelines", "Service", "Upkeep"
SECTIONS = (PIPELINES, SERVICE, UPKEEP, None)
"""Sections of `trivet --help` in order; None: commands without a section."""


class Command(TyperCommand):
    """Takes its options in either spelling, and names the type of an option in few words."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments, every option spelled as it is declared."""
        known = {option for param in self.params for option in (*param.opts, *param.secondary_opts)}
        return super().parse_args(ctx, [_declared(word, known) for word in args])

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, with the types that help shows."""
        return [_briefly(param) for param in super().get_params(ctx)]


class Group(TyperGroup):
    """Its help says of each command what it does in a whole sentence."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, with the types that help shows."""
        return [_briefly(param) for param in super().get_params(ctx)]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands by section, each with the first paragraph of its help."""
        found = [(name, command) for name in self.list_commands(ctx) if (command := self.get_command(ctx, name))]
        for section in SECTIONS:
            rows = [
                (name, " ".join((command.help or "").partition("\n\n")[0].split()))
                for name, command in found
                if getattr(command, "rich_help_panel", None) == section
            ]
            if rows:
                with formatter.section(section or "Commands"):
                    formatter.write_dl(rows)


class App(typer.Typer):
    """A group of such commands."""

    def __init__(self, **how: Any) -> None:
        super().__init__(cls=Group, no_args_is_help=True, rich_markup_mode=None, **how)

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = None, **how: Any
    ) -> Callable[..., Any]:
        """Register a function as one of these commands."""
        return super().command(name, cls=cls or Command, **how)


def _declared(word: str, known: Collection[str]) -> str:
    """`--data-dir=x` for `--data_dir=x` where that is an option; any other word as it is."""
    flag, equals, value = word.partition("=")
    dashed = flag.replace("_", "-")
    return f"{dashed}{equals}{value}" if dashed in known else word


def _briefly(param: Any) -> Any:
    """The parameter with a short name for its type; none for a switch, which takes no value."""
    if param.metavar is not None or param.param_type_name != "option":
        return param
    kind = param.type_descriptor.annotation
    [inner] = get_args(kind)[:1] or [kind]
    if getattr(param, "is_flag", False):
        param.metavar = ""
    elif param.min is not None or param.max is not None:
        param.metavar = "N"
    elif getattr(inner, "__name__", "") in ("str", "Path"):
        param.metavar = "PATH" if inner.__name__ == "Path" else "TEXT"
    return param
