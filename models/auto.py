"""What `--model auto` means on this machine: the first of the models that are at hand, and why it is that one."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import SecretStr

from models.model_errors import ModelError, ModelUnavailable
from models.openai_endpoint import Endpoint, parse_address
from models.registry import VARIABLE, Entry, named, registered

PROBE_S = 2.0  # longest wait for one endpoint
NO_CHAT = ("embed", "rerank", "whisper", "tts")  # words in the names of models that answer no question
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")


class Place(NamedTuple):
    """An OpenAI-compatible endpoint that may be there."""

    title: str
    base_url: str
    api_key: SecretStr | None = None
    of_user: bool = False
    """True if the user gave the address: its errors are reported in full, and the entry does not repeat it."""


LOCAL = (
    Place("LM Studio", "http://127.0.0.1:1234/v1"),
    Place("vLLM", "http://127.0.0.1:8000/v1"),
    Place("Ollama", "http://127.0.0.1:11434/v1"),
)
"""Servers of this machine at their usual ports."""


class Picked(NamedTuple):
    """The model of `--model auto`, and a sentence that says why it was picked."""

    entry: Entry
    why: str


def pick(name: str | None, places: Sequence[Place], *, given: Place | None = None) -> Picked:
    """The model of `--model auto`; name: the value of --model_name. Each place is asked once, briefly.

    In this order: the default of the user's file; weights on this disk, with vLLM where there is CUDA, else with
    transformers; an endpoint that serves the model, or without a name any; weights of the hub.
    given: the only endpoint to ask, named by the user. Raises ModelUnavailable with all tries, RegistryUnusable.
    """
    tried: list[str] = []
    picked = _at_endpoint(name, given, tried) if given else _at_hand(name, places, tried)
    if picked is None:
        raise ModelUnavailable(
            f"nothing answers here; tried: {'; '.join(tried)}. Start a server (`vllm serve MODEL`), give the folder of "
            "a model (--model_name FOLDER), or say which: --model openai --model_name MODEL asks OpenAI itself, which "
            "is never picked because it costs money"
        )
    return picked


def _at_hand(name: str | None, places: Sequence[Place], tried: list[str]) -> Picked | None:
    picked = _of_file(name, tried)
    if picked is None and name:
        picked = _on_disk(name, tried)
    for place in places:
        picked = picked or _at_endpoint(name, place, tried)
    if picked is None and name:
        picked = _on_hub(name, tried)
    return picked


def _of_file(name: str | None, tried: list[str]) -> Picked | None:
    """The model that the file calls `name`, or its default."""
    if name:
        entry = named(name)
        return Picked(entry, f"{name!r} of the file in {VARIABLE}") if entry else None
    for called, entry in registered().items():
        if entry.default:
            return Picked(entry, f"{called!r} is the default of the file in {VARIABLE}")
    tried.append(f"no model of a file in {VARIABLE} is marked `default: true`")
    return None


def _on_disk(name: str, tried: list[str]) -> Picked | None:
    if Path(name).is_dir():
        where = "a folder on this disk"
    elif _is_cached(name):
        where = "its weights are in the hub's cache on this disk"
    else:
        tried.append(f"{name!r} is no folder here and not in the hub's cache")
        return None
    return _loaded_here(name, where)


def _is_cached(name: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    try:
        return any(isinstance(try_to_load_from_cache(name, file), str) for file in WEIGHTS)
    except ValueError:  # no name that the hub could have
        return False


def _loaded_here(name: str, where: str) -> Picked:
    """The model in this process."""
    if not importlib.util.find_spec("vllm"):
        return Picked(Entry(backend="hf", name=name), f"{where}, and vLLM is not installed")
    import torch

    if not torch.cuda.is_available():
        return Picked(Entry(backend="hf", name=name), f"{where}, and there is no CUDA device for vLLM")
    return Picked(Entry(backend="vllm", name=name), f"{where}, with vLLM on a CUDA device")


def _at_endpoint(name: str | None, place: Place, tried: list[str]) -> Picked | None:
    address = parse_address(place.base_url).url
    endpoint = Endpoint(name or "any", base_url=place.base_url, api_key=place.api_key, timeout_s=PROBE_S)
    try:
        served = endpoint.call(lambda client: [str(model.id) for model in client.models.list().data])
    except ModelError as error:
        tried.append(f"{place.title}: {error}" if place.of_user else f"{place.title} at {address} is not there")
        return None
    able = [one for one in served if not any(word in one.lower() for word in NO_CHAT)]
    if (name not in served) if name else not able:
        tried.append(f"{place.title} at {address} serves {', '.join(served[:5]) or 'nothing'}")
        return None
    entry = Entry(backend="openai", name=name or able[0], base_url=None if place.of_user else place.base_url)
    count = "" if name or len(able) == 1 else f", the first of {len(able)} models there: --model_name picks another"
    return Picked(entry, f"{place.title} at {address} serves it{count}")


def _on_hub(name: str, tried: list[str]) -> Picked | None:
    from models.weight_files import hub_folder

    try:
        hub_folder(name, what="model", wanted=("config.json",))
    except ModelUnavailable:
        tried.append(f"the Hugging Face hub has no {name!r}, or cannot be asked")
        return None
    return _loaded_here(name, "the hub has it")
