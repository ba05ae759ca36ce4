"""Starts the flow behind `trivet lever run` and its stages."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from flows.cli.engine import Outcome, prefect_for_a_command, run_flow
from flows.cli.output import REFUSED, fail, plain_errors

if TYPE_CHECKING:
    from flows.learning import LeverReport
    from flows.lever_config import LeverConfig

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


def start(flags: Mapping[str, Any], *, until: str, quiet: bool) -> Outcome[LeverReport]:
    """Run `post_train` here and now. Raises pydantic.ValidationError for options that do not fit."""
    with prefect_for_a_command(expected_errors(), quiet=quiet):
        from flows.cli.refusing import refuse_unusable
        from flows.lever import post_train
        from tasks.lever.errors import Unfinished
        from tasks.lever.judges import DIGITS

        config = config_of(flags, until=until)
        if config.judge != DIGITS and config.until not in ("embed", "pools"):
            refuse_unusable(config.judge, f"--judge {config.judge}", pictures=True)
        return run_flow(post_train, config, Unfinished)


def config_of(flags: Mapping[str, Any], *, until: str) -> LeverConfig:
    """The parameters of the flow: its defaults, then the YAML file, then the flags, then each --set."""
    from flows.lever_config import LeverConfig
    from tasks.lever.judges import DIGITS
    from tasks.lever.layout import dataset_of

    typed: dict[str, Any] = {}
    for one in flags["settings"] or ():
        _set(typed, one)
    in_file = _in_file(flags["config"])
    name = dataset_of(flags["dataset"] or _dataset_in(typed) or _dataset_in(in_file) or DIGITS)
    # whole, so that a flag or a line that sets one field of several leaves the others as they are
    chosen = LeverConfig().model_dump() | (deepcopy(OF_REAL_DATA) if name != DIGITS else {})
    for more in (in_file, _of_flags(flags, name, until), typed):
        _merge(chosen, more)
    return LeverConfig.model_validate(chosen)


def _dataset_in(chosen: dict[str, Any]) -> str | None:
    """The dataset that a file or `--set` names; a bare name is put where it belongs."""
    if isinstance(given := chosen.get("dataset"), str):
        chosen["dataset"] = {"name": given}
        return given
    return given.get("name") if isinstance(given, dict) else None


def _of_flags(flags: Mapping[str, Any], dataset: str, until: str) -> dict[str, Any]:
    from tasks.lever.layout import judge_of, sampler_of, vectors_of

    same = ("encoder", "adapters", "pool_size", "shots", "seeds", "results", "device")
    return _given(
        dataset=_given(name=dataset, data_dir=flags["data_dir"], train_queries=flags["train_queries"]),
        judge=flags["judge"] and judge_of(flags["judge"]),
        sampler=flags["sampler"] and sampler_of(flags["sampler"]),
        vectors=flags["vectors"] and vectors_of(flags["vectors"]),
        first_seed=flags["seed"],
        rl_data_copy=flags["output_path"],
        until=until,
        save=flags["save"] and flags["save"].value,
        rce_only=flags["rce_only"] or None,
        network={"gate": False} if flags["no_gate"] else None,
        grpo=_given(
            offline_only=flags["offline_only"] or None,
            dropout_in_ratio=flags["dropout_in_ratio"] or None,
            top_k=flags["top_k"],
        )
        or None,
        spending=_given(max_calls=flags["max_calls"]) or None,
        start=_started(flags) or None,
        begin_at=flags["from_stage"] and flags["from_stage"].value,
        **{one: flags[one] for one in same},
    )


def _started(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Files in place of stages."""
    return _given(
        query_embeddings=flags["query_emb"],
        candidate_embeddings=flags["cand_emb"],
        beam_data=flags["beam_data"],
        sft_checkpoint=flags["sft_ckpt"],
        rl_data=flags["rl_data"],
        rce_checkpoint=flags["rce_ckpt"],
        grpo_checkpoint=flags["grpo_ckpt"],
    )


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


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
    from flows.server import ServerDidNotStart
    from models.errors import ModelError
    from storage.errors import StorageError
    from tasks.budget import BudgetSpent
    from tasks.lever.errors import (
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
