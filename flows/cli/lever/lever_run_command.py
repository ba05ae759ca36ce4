"""`trivet lever run`, and its stages one by one: the same flow, up to the stage that is named."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from flows.cli.commands import Json
from flows.cli.engine import Outcome, prefect_for_a_command, run_flow
from flows.cli.lever import show_lever_run
from flows.cli.options import Flag, Given, Options, command, nested
from flows.cli.output import FAILED, REFUSED, emit, fail, plain_errors

if TYPE_CHECKING:
    from pydantic import ValidationError

    from flows.running.lever_config import LeverConfig
    from flows.running.lever_run import LeverReport

STAGES = {
    "run": (
        "evaluate",
        "Train a selector of demonstrations and measure it; killed anywhere, it goes on when run again.",
    ),
    "embed": ("embed", "Export the vectors of pictures and questions."),
    "pools": ("pools", "Choose the candidates of every query."),
    "sft": ("sft", "Train a selector that imitates the best demonstrations."),
    "rl-data": ("rl-data", "Let a trained selector draw demonstrations, and the judge answer with them."),
    "rce": ("rce", "Train on rewarded groups of demonstrations."),
    "grpo": ("grpo", "Train on comparisons within groups, judged as it goes."),
    "evaluate": ("evaluate", "Measure selectors beside chance, similarity and the best that there is."),
}
"""Command → the last stage of the flow, and what it says of itself."""


OF_REAL_DATA: dict[str, Any] = {
    "dataset": {"train_queries": 800, "test": 1000},
    "judge": "hf:Qwen/Qwen2.5-VL-3B-Instruct",
    "encoder": "clip",
    "prompts": {"style": "chat"},
    "pool_size": 64,
    "network": {},
    "beams": {},
    "sft": {},
    "rl_data": {},
    "rce": {},
    "grpo": {},
    "oracle": {"most_judgments": 20_000},
}
"""What a run on anything but the CPU world has in place of the flow's own defaults; {}: the seed's."""


def _shown(*path: str) -> str:
    """The default of real data beside that of the CPU world."""
    return f"{reduce(getitem, path, OF_REAL_DATA)}; {{usual}} for digits"


Start = Literal["sft", "rl-data", "rce", "grpo", "evaluate"]
"""Stages that can begin from files of the results folder."""
DATASET = "digits (a world for CPUs), okvqa, vqav2, textvqa or vizwiz."
VECTORS = "What the selector sees of queries and candidates: joint, image or text."
SAMPLER = "How the candidates of a query are found: RandSampler, TextSimSampler, ImgSimSampler or MixSampler."
FROM = "Begin with this stage, from files of the results folder: sft, rl-data, rce, grpo or evaluate."
NO_GATE = "Ablation: the state of the pointer network does not take in what was picked."
UNSET: dict[str, Any] = {"default": None}
ON: dict[str, Any] = {"type": bool, "default": False}
OPTIONS = Options(
    "flows.running.lever_config:LeverConfig",
    {
        "dataset.name": Flag("--dataset --world", type=str, help=DATASET, **UNSET),
        "dataset.data_dir": Flag(**UNSET),
        "judge": Flag("--judge --vqa-model", shown=_shown("judge"), **UNSET),
        "encoder": Flag(shown=_shown("encoder"), **UNSET),
        "adapters": Flag(),
        "vectors": Flag(type=str, help=VECTORS, **UNSET),
        "sampler": Flag(type=str, help=SAMPLER, **UNSET),
        "pool_size": Flag("--pool-size --candidate-num", shown=_shown("pool_size"), **UNSET),
        "shots": Flag("--shots --shot-num", **UNSET),
        "seeds": Flag(**UNSET),
        "first_seed": Flag("--seed", min=0, **UNSET),
        "dataset.train_queries": Flag(
            "--train-queries --sample-num", shown=_shown("dataset", "train_queries"), **UNSET
        ),
        "begin_at": Flag("--from", type=Start, metavar="STAGE", help=FROM, **UNSET),
        "start.sft_checkpoint": Flag("--sft-ckpt"),
        "start.rce_checkpoint": Flag("--rce-ckpt"),
        "start.grpo_checkpoint": Flag("--grpo-ckpt"),
        "start.beam_data": Flag(),
        "start.rl_data": Flag(),
        "start.query_embeddings": Flag("--query-emb"),
        "start.candidate_embeddings": Flag("--cand-emb"),
        "rl_data_copy": Flag("--output-path"),
        "results": Flag(**UNSET),
        "device": Flag(),
        "grpo.offline_only": Flag(**ON),
        "rce_only": Flag(**ON),
        "network.gate": Flag("--no-gate", help=NO_GATE, **ON),
        "grpo.dropout_in_ratio": Flag(**ON),
        "grpo.top_k": Flag(min=1),  # the field says which numbers make sense
        "spending.max_calls": Flag(),
        "save": Flag(**UNSET),
    },
)
"""What is not given is left to the file of --config and to the defaults of the dataset, so nothing has a value here."""


def register(app: typer.Typer) -> None:
    """Add `run` and the stages to `trivet lever`."""
    for name, (until, about) in STAGES.items():
        command(app, name, OPTIONS, help=about)(_command(until))


def _command(until: str) -> Callable[..., None]:
    def stage(
        given: Given,
        config: Annotated[
            Path | None, typer.Option(help="YAML file of the flow's parameters; options override it.")
        ] = None,
        settings: Annotated[
            list[str] | None,
            typer.Option("--set", metavar="NAME=VALUE", help="Any parameter, such as grpo.rounds=10; may be repeated."),
        ] = None,
        as_json: Json = False,
    ) -> None:
        from pydantic import ValidationError

        try:
            outcome = start(lambda: config_of(given, until=until, file=config, settings=settings or ()), quiet=as_json)
        except ValidationError as error:
            fail(_sentences(error), REFUSED)
        emit(outcome.report.told(), as_json, lambda: show_lever_run.report(outcome.report))
        if outcome.unfinished:
            fail(outcome.unfinished, FAILED)

    return stage


def start(configure: Callable[[], LeverConfig], *, quiet: bool) -> Outcome[LeverReport]:
    """Run `post_train` here and now. Raises pydantic.ValidationError for options that do not fit, before it begins."""
    with expected_errors():
        config = configure()
    with prefect_for_a_command(expected_errors(), quiet=quiet):
        from flows.cli.refusing import refuse_unusable
        from flows.lever import post_train
        from tasks.lever.judge.judges import DIGITS
        from tasks.lever.lever_errors import Unfinished

        if config.judge != DIGITS and config.until not in ("embed", "pools"):
            refuse_unusable(config.judge, f"--judge {config.judge}", pictures=True)
        return run_flow(post_train, config, Unfinished)


def config_of(given: Given, *, until: str, file: Path | None = None, settings: Sequence[str] = ()) -> LeverConfig:
    """The parameters of the flow: its defaults, then the YAML file, then the options, then each --set."""
    from flows.running.lever_config import LeverConfig
    from tasks.lever.data.folder_layout import dataset_of
    from tasks.lever.judge.judges import DIGITS

    typed: dict[str, Any] = {}
    for one in settings:
        _set(typed, one)
    in_file = _in_file(file)
    name = dataset_of(given.get("dataset.name") or _dataset_in(typed) or _dataset_in(in_file) or DIGITS)
    # whole, so that an option or a line that sets one field of several leaves the others as they are
    chosen = LeverConfig().model_dump() | (deepcopy(OF_REAL_DATA) if name != DIGITS else {})
    for more in (in_file, nested(_read(given) | {"dataset.name": name, "until": until}), typed):
        _merge(chosen, more)
    return LeverConfig.model_validate(chosen)


def _read(given: Given) -> dict[str, Any]:
    """The options with the names of the field in place of older ones; a switch that is off says nothing."""
    from tasks.lever.data.folder_layout import judge_of, sampler_of, vectors_of

    readers = {"judge": judge_of, "sampler": sampler_of, "vectors": vectors_of}
    said = {path: value for path, value in given.items() if value is not None and value is not False}
    said = {path: readers[path](value) if path in readers else value for path, value in said.items()}
    return said | ({"network.gate": False} if "network.gate" in said else {})


def _dataset_in(chosen: dict[str, Any]) -> str | None:
    """The dataset that a file or `--set` names; a bare name is put where it belongs."""
    if isinstance(given := chosen.get("dataset"), str):
        chosen["dataset"] = {"name": given}
        return given
    return given.get("name") if isinstance(given, dict) else None


def _in_file(path: Path | None) -> dict[str, Any]:
    import yaml

    if path is None:
        return {}
    try:
        read = yaml.safe_load(path.read_text())
    except OSError as error:
        fail(f"--config {path}: {error.strerror}; name a YAML file", REFUSED)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        fail(f"--config {path} is no YAML: {error}", REFUSED)
    if not isinstance(read, dict):
        fail(f"--config {path} holds no parameters; write them as `name: value`", REFUSED)
    return cast("dict[str, Any]", read)


def _set(chosen: dict[str, Any], text: str) -> None:
    """Put one `a.b=value` where it belongs; values are YAML."""
    import yaml

    name, equals, value = text.partition("=")
    if not equals or not name:
        fail(f"--set {text!r} is not NAME=VALUE", REFUSED)
    *path, last = name.split(".")
    place = chosen
    for part in path:
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            fail(f"--set {name}: {part} has no parts", REFUSED)
    try:
        place[last] = yaml.safe_load(value)
    except yaml.YAMLError:
        fail(f"--set {name}: {value!r} is no YAML value", REFUSED)


def _merge(under: dict[str, Any], over: Mapping[str, Any]) -> None:
    for name, value in over.items():
        if isinstance(value, dict) and isinstance(under.get(name), dict):
            _merge(under[name], cast("dict[str, Any]", value))
        else:
            under[name] = value


@contextmanager
def expected_errors() -> Generator[None]:
    """What the lever may refuse or miss, as a sentence."""
    from flows.running.command_server import ServerDidNotStart
    from models.model_errors import ModelError
    from storage.storage_errors import StorageError
    from tasks.budget import BudgetSpent
    from tasks.lever.lever_errors import (
        DatasetUnusable,
        FileUnusable,
        LeverError,
        OptionUnusable,
        PointerUnusable,
        PoolTooSmall,
        RewardUnusable,
    )

    refused = (OptionUnusable, DatasetUnusable, FileUnusable, PoolTooSmall, PointerUnusable, RewardUnusable)
    with plain_errors(*refused, failed=(LeverError, StorageError, ModelError, ServerDidNotStart, BudgetSpent)):
        yield


def _sentences(error: ValidationError) -> str:
    """What pydantic refused, a parameter a line, named as `--set` and YAML files name it."""
    return "\n".join(
        str(item["ctx"]["error"])
        if item["type"] == "value_error" and "ctx" in item
        else f"{'.'.join(map(str, item['loc']))}: {item['msg']} (it is {str(item['input'])[:80]!r})"
        for item in error.errors()
    )
