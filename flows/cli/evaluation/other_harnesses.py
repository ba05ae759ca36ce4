"""Command lines of evalchemy and lm-evaluation-harness as they stand in scripts, brought into the form of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import typer

TEMPLATE_FLAGS = ("--apply_chat_template", "--apply-chat-template")
LISTS = ("--tasks", "-t", "--model_args", "--model-args", "-a", "--gen_kwargs", "--gen-kwargs")
"""Flags that lm_eval takes with several words."""
WITHOUT_EFFECT = {
    "--use_cache": "answers are always kept in the response store",
    "--cache_requests": "requests are always kept in the response store",
    "--log_samples": "samples are always kept",
    "--check_integrity": "every run checks its benchmarks before it starts",
    "--show_config": "`trivet eval show RUN` shows it",
    "--verbosity": "`trivet --debug eval run …` says more",
    "--wandb_args": "Prefect shows the run",
    "--wandb_config_args": "Prefect shows the run",
    "--hf_hub_log_args": "no card is made here; `trivet eval results --format markdown` writes its table",
    "--use_database": "results always go to the database, unless --save file",
    "--is_external_model": "the model's backend says it",
    "--creation_location": "`trivet eval show RUN` says where a run was made",
    "--created_by": "`trivet eval show RUN` says who made a run",
    "--model_id": "a model is known by its name and revision",
    "--write_out": "`trivet eval show RUN --item ID` shows prompts and answers",
    "--max_batch_size": "batches shrink by themselves when memory runs out",
    "--confirm_run_unsafe_code": "programs run in a sandbox",
}
"""Flags of `python -m eval.eval` and `lm_eval` without effect here, and why."""
SWITCHES = {
    "--log_samples",
    "--check_integrity",
    "--show_config",
    "--use_database",
    "--is_external_model",
    "--write_out",
    "--confirm_run_unsafe_code",
}
"""Those of them that take no value, or True or False."""
BACKENDS = {
    "openai-chat-completions": "openai",
    "local-chat-completions": "openai",
    "openai-completions": "openai",
    "local-completions": "openai",
    "huggingface": "hf",
    "hf-auto": "hf",
}
"""Their names of models → our backend."""
_TEXTS = "an endpoint takes texts, and cuts them into tokens itself"
_MEMORY = "the device's memory is divided by transformers"
IDLE_ARGS: dict[str, dict[str, str]] = {
    "openai": {
        "tokenized_requests": _TEXTS,
        "tokenizer": _TEXTS,
        "tokenizer_backend": _TEXTS,
        "eos_string": _TEXTS,
        "max_length": "the server knows the length of its context",
    },
    "hf": {
        "backend": "the model's own configuration says it",
        "use_fast_tokenizer": "the tokenizer is the model's own",
        "tokenizer": "the tokenizer is the model's own",
        "logits_cache": "log-probabilities are kept in the response store",
        "max_memory_per_gpu": _MEMORY,
        "max_cpu_memory": _MEMORY,
        "offload_folder": _MEMORY,
        "attn_implementation": "transformers chooses it",
    },
    "vllm": {
        "data_parallel_size": "one engine answers here, as several would; `vllm serve` runs several",
        "tokenizer": "the tokenizer is the model's own",
        "tokenizer_mode": "the tokenizer is the model's own",
        "swap_space": "vLLM chooses it",
        "max_num_batched_tokens": "vLLM chooses it",
        "device": "vLLM takes the devices that CUDA_VISIBLE_DEVICES names",
    },
}
"""Backend → their model_args that change no answer here, and why; of `openai` also for `curator` and `responses`."""
ENDPOINT_PATHS = ("/chat/completions", "/completions")
"""lm_eval's `base_url` ends in the path of the request."""


def arguments(args: list[str]) -> list[str]:
    """The arguments of the command line without flags that mean nothing here, of which a note on stderr says why."""
    return _without_idle_flags(_with_template_value(_with_lists_joined(args)))


def _with_lists_joined(args: list[str]) -> list[str]:
    """`--tasks gsm8k ifeval` as `--tasks gsm8k,ifeval`."""
    joined: list[str] = []
    for word in args:
        if len(joined) > 1 and joined[-2] in LISTS and not word.startswith("-"):
            joined[-1] += f",{word}"
        else:
            joined.append(word)
    return joined


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
            _note(f"{flag} is not needed: {WITHOUT_EFFECT[known]}")
            idle = known if "=" not in word else ""
        elif idle and not word.startswith("-") and (idle not in SWITCHES or word.lower() in ("true", "false")):
            idle = ""  # its value
        else:
            idle = ""
            kept.append(word)
    return kept


def limit(given: float | None) -> float | None:
    """The value of `--limit`: so many items, or a part of them below 1. Raises BadParameter for another."""
    if given is not None and not (0 < given < 1 or (given >= 1 and given == int(given))):
        raise typer.BadParameter(f"{given:g} is neither a number of items, from 1, nor a part of them, below 1")
    return given


def options(chosen: Mapping[str, Any], model_args: Mapping[str, Any]) -> dict[str, Any]:
    """The options with our names of models and model_args; notes on stderr say what was left out."""
    backend = BACKENDS.get(chosen["model"], chosen["model"])
    if "completions" in str(chosen["model"]).split("-") and "chat" not in str(chosen["model"]).split("-"):
        _note(f"--model {chosen['model']}: the model is asked as a chat; give --apply_chat_template False for raw text")
    args = dict(model_args)
    longest = args.pop("max_gen_toks", None)
    for name, why in _idle(backend, args):
        del args[name]
        _note(f"model_args {name} is not needed: {why}")
    if backend == "hf" and args.pop("parallelize", False):
        args.setdefault("device_map", "auto")
    if isinstance(address := args.get("base_url"), str):
        args["base_url"] = _without_path(address)
    return {
        **chosen,
        "model": backend,
        "model_args": args,
        "base_url": chosen["base_url"] and _without_path(str(chosen["base_url"])),
        "max_tokens": longest if chosen["max_tokens"] is None else chosen["max_tokens"],
    }


def _idle(backend: Any, args: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    idle = IDLE_ARGS.get("openai" if backend in ("curator", "responses") else backend, {})
    return ((name, idle[name]) for name in list(args) if name in idle)


def _without_path(address: str) -> str:
    plain = address.rstrip("/")
    return next((plain.removesuffix(path) for path in ENDPOINT_PATHS if plain.endswith(path)), address)


def _note(text: str) -> None:
    typer.secho(f"note: {text}", err=True)
