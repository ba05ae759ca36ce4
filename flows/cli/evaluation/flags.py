"""How `eval run` reads its command line: seed and house spelling alike, and flags of older scripts named, not lost."""

from __future__ import annotations

from typing import Any

import typer

from flows.cli.commands import Command

TEMPLATE_FLAGS = ("--apply_chat_template", "--apply-chat-template")
WITHOUT_EFFECT = {
    "--use_cache": "answers are always kept in the response store",
    "--cache_requests": "requests are always kept in the response store",
    "--log_samples": "samples are always kept",
    "--check_integrity": "every run checks its benchmarks before it starts",
    "--show_config": "`trivet eval show RUN` shows it",
    "--verbosity": "`trivet --debug eval run …` says more",
    "--wandb_args": "Prefect shows the run",
    "--wandb_config_args": "Prefect shows the run",
    "--hf_hub_log_args": "`trivet eval export` writes what a model card needs",
    "--use_database": "results always go to the database, unless --save file",
    "--is_external_model": "the model's backend says it",
    "--creation_location": "`trivet eval show RUN` says where a run was made",
    "--created_by": "`trivet eval show RUN` says who made a run",
    "--model_id": "a model is known by its name and revision",
    "--write_out": "`trivet eval show RUN --item ID` shows prompts and answers",
    "--max_batch_size": "batches shrink by themselves when memory runs out",
}
"""Flags of `python -m eval.eval` that ask for what is done anyway, and where to look instead."""
SWITCHES = {
    "--log_samples",
    "--check_integrity",
    "--show_config",
    "--use_database",
    "--is_external_model",
    "--write_out",
}
"""Those of them that take no value, or True and False."""


class EvalCommand(Command):
    """Takes `--apply_chat_template` without a value as True, and explains flags that need not be given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As click has it, after the flags of the seed's command line were brought into its form."""
        return super().parse_args(ctx, _without_idle_flags(_with_template_value(args)))


def _with_template_value(args: list[str]) -> list[str]:
    given: list[str] = []
    for flag, following in zip(args, [*args[1:], "--"], strict=False):  # no arguments: nothing follows
        given.append(flag)
        if flag in TEMPLATE_FLAGS and following.startswith("-"):
            given.append("True")
    return given


def _without_idle_flags(args: list[str]) -> list[str]:
    kept: list[str] = []
    idle = ""
    for word in args:
        flag = word.partition("=")[0]
        known = f"--{flag.removeprefix('--').replace('-', '_')}" if flag.startswith("--") else flag
        if known in WITHOUT_EFFECT:
            typer.secho(f"note: {flag} is not needed: {WITHOUT_EFFECT[known]}", err=True)
            idle = known if "=" not in word else ""
        elif idle and not word.startswith("-") and (idle not in SWITCHES or word.lower() in ("true", "false")):
            idle = ""  # its value
        else:
            idle = ""
            kept.append(word)
    return kept
