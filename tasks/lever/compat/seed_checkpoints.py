"""Checkpoints of selectors: ours, and those of Lever-Plus, Lightning's `.ckpt` and torch's `.pt`.

Source of the layouts: yunsoft2019/Lever-Plus (train.py, workflows/grpo_post_train.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic import ValidationError

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.compat.torch_files import Inert, Weight, open_archive
from tasks.lever.learning.checkpoints import POOLS_OF, load_selector, named, read_header, require_layout, selector_of
from tasks.lever.lever_errors import FileUnusable
from tasks.lever.lever_records import SEED_CHOICES, WITH_ANSWERS, PoolRecipe

SEED_SUFFIXES = (".ckpt", ".pt", ".pth")
PREFIX = "lever_lm.pointer_selector."
ENCODERS = "lever_lm."
LAYER = re.compile(r"(?:cross_attn_layers|attn_norms)\.(\d+)\.")
LOOKED_AT_MOST = 20_000
"""Values of the hyper-parameters that are searched for the number of heads."""
MOST_HEADS = 1000


class Opened(NamedTuple):
    """A selector from a file, whoever wrote it."""

    selector: PointerSelector
    notes: tuple[str, ...]
    """Notes for the user on how it was read; empty for our own files."""
    encoder: str | None
    """Encoder whose vectors it was trained with; checkpoints of Lever-Plus do not name it."""
    recipe: PoolRecipe
    """Pools that it was trained in. Where the file has none, the sampler in its name, else RandSampler, which all were
    trained with before files told it."""

    @property
    def sees_answers(self) -> bool:
        """Whether it was trained on candidates with their answers."""
        return bool(self.encoder and self.encoder.endswith(WITH_ANSWERS))

    def refuse_other(self, encoder: str, *, dimension: int, path: Path) -> None:
        """Raise FileUnusable unless it reads vectors of this encoder; with answers or without them does not count."""
        own, other = ((name or "").removesuffix(WITH_ANSWERS) for name in (self.encoder, encoder))
        if own and other and own != other:
            raise FileUnusable(f"{path} was trained with vectors of {own}, and these are of {other}; embed anew")
        if (width := self.selector.config.embedding_dim) != dimension:
            raise FileUnusable(
                f"{path} reads vectors of {width} numbers, and these have {dimension}; "
                "take the encoder that it was trained with"
            )

    def refuse_other_sight(self, *, with_answers: bool, path: Path) -> None:
        """Raise FileUnusable unless it was trained on candidates with their answers, or without, as it sees them now.

        One that does not name its encoder may have been trained on either.
        """
        if self.encoder and self.sees_answers != with_answers:
            own, here = ("without", "with") if with_answers else ("with", "without")
            raise FileUnusable(
                f"{path} was trained on candidates {own} their answers, and here it would see them {here}; "
                "train it anew, or give the embeddings that it was trained with"
            )


def open_selector(path: Path, *, heads: int | None = None) -> Opened:
    """The selector in a checkpoint of ours or of Lever-Plus. Raises FileUnusable."""
    if path.suffix in SEED_SUFFIXES:
        return read_seed_checkpoint(path, heads=heads)
    meta = read_header(path)[1]
    encoder, recipe, notes = meta.get("encoder"), _recipe_before(path), ()
    if meta.get(POOLS_OF) is None:
        notes = (_assumed(recipe),)
    else:
        try:
            recipe = PoolRecipe.model_validate(meta[POOLS_OF])
        except ValidationError as error:
            raise FileUnusable(f"{path}: `{POOLS_OF}` of its header is no recipe of pools: {error}") from error
    return Opened(load_selector(path), notes, str(encoder) if encoder else None, recipe)


def _recipe_before(path: Path) -> PoolRecipe:
    """Of a checkpoint that does not tell: by its name, as `sft_ImgSimSampler.safetensors`."""
    for sampler in SEED_CHOICES:
        if sampler in path.name:
            return PoolRecipe(sampler=sampler, size=0)
    return PoolRecipe(sampler="RandSampler", size=0)


def _assumed(recipe: PoolRecipe) -> str:
    return f"it does not tell in which pools it was trained; {recipe.sampler} is taken, by its name or for its age"


def read_seed_checkpoint(path: Path, *, heads: int | None = None) -> Opened:
    """The pointer network in a checkpoint of Lever-Plus; the image and text encoders in it are not read.

    heads: of each layer; the weights do not tell. None takes `num_heads` from the hyper-parameters, else 1.
    Raises FileUnusable for what is no such checkpoint, naming the keys that are missing or too many.
    """
    with open_archive(path) as archive:
        top = _texts_of(archive.value)
        if top is None:
            raise FileUnusable(f"{path} holds no dict of weights, and is no checkpoint; name a .ckpt or .pt file")
        tensors, notes = _pointer_tensors(top, path)
        config, more = _config(tensors, top, heads, path)
        require_layout({key: one.size for key, one in tensors.items()}, config, str(path))
        recipe, selector = _recipe_before(path), selector_of(config, archive.read(tensors), str(path))
        return Opened(selector, (*notes, *more, _assumed(recipe)), None, recipe)


Found = tuple[dict[str, Weight], list[str]]
"""The tensors of the pointer network, and notes on all others."""


def _pointer_tensors(top: Mapping[str, Any], path: Path) -> Found:
    state, bare = _texts_of(top.get("state_dict")), _texts_of(top.get("model_state_dict"))
    for where in (state, top):
        if where is not None and any(key.startswith(PREFIX) for key in where):
            return _below_prefix(where, path)
    if bare is not None:
        return _weights_in(bare, path), []
    keys = [key[:100] for key in state or top]
    raise FileUnusable(
        f"{path} holds no pointer network: nothing below `{PREFIX}`, no `model_state_dict`; "
        f"its keys are {named(keys) or 'none'}. Name a v2 or v3 checkpoint of Lever-Plus"
    )


def _below_prefix(state: Mapping[str, Any], path: Path) -> Found:
    inside = {key.removeprefix(PREFIX): value for key, value in state.items() if key.startswith(PREFIX)}
    outside = [key for key in state if not key.startswith(PREFIX)]
    encoders = [key for key in outside if key.startswith(ENCODERS)]
    notes: list[str] = []
    if encoders:
        notes.append(f"{len(encoders)} weights of the image and text encoders were not read")
    if any("lora_" in key for key in encoders):
        notes.append("its encoders carry LoRA weights: embeddings of the plain encoders are not those it learnt from")
    if len(outside) > len(encoders):
        notes.append(f"{len(outside) - len(encoders)} entries of other parts were not read")
    return _weights_in(inside, path), notes


def _weights_in(state: Mapping[str, Any], path: Path) -> dict[str, Weight]:
    found = {key: one for key, one in state.items() if isinstance(one, Weight)}
    if wrong := state.keys() - found.keys():
        raise FileUnusable(f"{path}: {named(wrong)}: no tensors of a kind that weights have; it is another checkpoint")
    return found


def _texts_of(value: Any) -> dict[str, Any] | None:
    """The entries of a dict under texts; None for anything else."""
    found = cast("dict[Any, Any]", value) if isinstance(value, dict) else None
    return None if found is None else {key: one for key, one in found.items() if isinstance(key, str)}


def _config(
    tensors: Mapping[str, Weight], top: Mapping[str, Any], heads: int | None, path: Path
) -> tuple[PointerConfig, list[str]]:
    """The configuration that the shapes tell. Layers are as many as have a number; a hole is found by its keys."""
    projection = tensors.get("query_proj.weight")
    if projection is None or len(projection.size) != 2:
        raise FileUnusable(f"{path}: no query_proj.weight, but {named(tensors) or 'nothing'}; it is no v2 network")
    hidden = projection.size[0]
    entry = tensors.get("input_proj.weight")
    layers = len({match[1] for key in tensors if (match := LAYER.match(key))})
    gate = any(key.startswith("query_update_gate.") for key in tensors)
    notes = [] if gate else ["it has no state gate (`gate=False`): every pick sees the same state"]
    if not layers:
        notes.append("it has no cross-attention (`layers=0`): it is a bi-encoder")
    if heads is None:
        heads, told = _heads(top, path)
        notes.append(told)
    try:
        dimension = entry.size[-1] if entry and entry.size else hidden
        config = PointerConfig(embedding_dim=dimension, hidden=hidden, layers=layers, heads=heads, gate=gate)
    except ValidationError as error:
        raise FileUnusable(f"{path}: {heads} heads, {hidden} wide: {error.errors()[0]['msg']}") from error
    return config, notes


def _heads(top: Mapping[str, Any], path: Path) -> tuple[int, str]:
    """The number of heads in the hyper-parameters, where they name one, and where it is from."""
    places = ("hyper_parameters", "datamodule_hyper_parameters", "model_config")
    found = {heads for place in places for heads in _integers_named("num_heads", top.get(place))}
    if len(found) > 1:
        raise FileUnusable(f"{path}: its hyper-parameters name num_heads {sorted(found)}; say which one by `heads`")
    if found:
        return (heads := found.pop()), f"{heads} heads, as its hyper-parameters say"
    return 1, "nothing in it says how many heads it has; 1 is taken, the default of Lever-Plus"


def _integers_named(name: str, value: Any) -> Iterator[int]:
    """Small integers under this key, however deep; what OmegaConf wraps them in is seen through."""
    waiting, seen = [value], set[int]()
    while waiting and len(seen) < LOOKED_AT_MOST:
        one = waiting.pop()
        parts = (one.items, one.state) if isinstance(one, Inert) else (one,)
        mappings = [found for part in parts if (found := _texts_of(part))]
        if id(one) in seen:
            continue
        seen.add(id(one))
        for mapping in mappings:
            waiting.extend(mapping.values())
            if type(found := _unwrapped(mapping.get(name))) is int and 0 < found < MOST_HEADS:
                yield found


def _unwrapped(value: Any) -> Any:
    """The content of an OmegaConf node, which keeps it as `_val`."""
    state = _texts_of(value.state) if isinstance(value, Inert) else None
    return value if state is None else state.get("_val")
