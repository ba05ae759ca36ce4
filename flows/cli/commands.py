"""How all commands read their options and show them: `--data_dir` is `--data-dir`, and a switch has no type."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """Takes its options in either spelling; its help leaves the room of long types to what options mean."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As typer has it, every option spelled as it is declared."""
        known = {option for param in self.params for option in (*param.opts, *param.secondary_opts)}
        return super().parse_args(ctx, [_declared(word, known) for word in args])

    def get_params(self, ctx: Any) -> list[Any]:
        """As typer has them, shown in fewer words."""
        return [_briefly(param) for param in super().get_params(ctx)]


class Group(TyperGroup):
    """Its help is as that of commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        """As typer has them, shown in fewer words."""
        return [_briefly(param) for param in super().get_params(ctx)]


class App(typer.Typer):
    """A group of such commands."""

    def __init__(self, **how: Any) -> None:
        super().__init__(cls=Group, no_args_is_help=True, **how)

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = None, **how: Any
    ) -> Callable[..., Any]:
        """As typer has it."""
        return super().command(name, cls=cls or Command, **how)


def _declared(word: str, known: Collection[str]) -> str:
    """`--data-dir=x` for `--data_dir=x` where that is an option; any other word as it is."""
    flag, equals, value = word.partition("=")
    dashed = flag.replace("_", "-")
    return f"{dashed}{equals}{value}" if dashed in known else word


def _briefly(param: Any) -> Any:
    """No `<bool>` beside a switch, which takes no value; `N [x>=1]` for `<int range> [x>=1]`."""
    if param.metavar is None and getattr(param, "is_flag", False):
        param.metavar = ""
    elif param.metavar is None and any(getattr(param, bound, None) is not None for bound in ("min", "max")):
        param.metavar = "N"
    return param
