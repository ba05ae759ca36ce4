"""Checkpoints of selectors: ours, safetensors with the configuration in the header, and those of Lever-Plus.

Source of the layouts of Lever-Plus (Lightning `.ckpt`, torch `.pt`): yunsoft2019/Lever-Plus (train.py,
workflows/grpo_post_train.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from pydantic import JsonValue, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.data.embeddings import header_of
from tasks.lever.learning.torch_files import Inert, Weight, open_archive
from tasks.lever.lever_errors import FileUnusable
from tasks.lever.lever_records import SEED_CHOICES, WITH_ANSWERS, PoolRecipe

FORMAT = "trivet pointer selector"
POOLS_OF = "pools"
"""Entry of `meta` with the recipe of the pools that a selector was trained in."""
NAMED_AT_MOST = 6
WIDEST = 1 << 16
"""Largest width that a file may ask for; the usual ones are 256 and 512."""


def save_selector(selector: PointerSelector, *, meta: Mapping[str, JsonValue]) -> bytes:
    """The weights and configuration of `selector`, and `meta`; equal selectors give equal bytes."""
    about = {"format": FORMAT, "config": selector.config.model_dump(), "meta": dict(meta)}
    # one entry only: safetensors writes several in no fixed order
    header = {"trivet": json.dumps(about, sort_keys=True, allow_nan=False)}
    state = {key: value.detach().cpu().contiguous() for key, value in selector.state_dict().items()}
    return save(state, metadata=header)


def load_selector(source: bytes | Path, *, device: str = "cpu") -> PointerSelector:
    """What `save_selector` wrote, ready for inference (`eval`). Draws no random numbers.

    Raises FileUnusable naming every weight that is missing, too many, of another shape, or not finite.
    """
    data, where = _bytes(source)
    config, _ = _header(data, where)
    try:
        state = load(data)
    except (SafetensorError, ValueError) as error:
        raise FileUnusable(f"{where} is not whole ({error}); copy or train it again") from error
    return selector_of(config, state, where).to(device)


def read_header(source: bytes | Path) -> tuple[PointerConfig, dict[str, JsonValue]]:
    """The configuration and `meta` of a checkpoint of ours. Raises FileUnusable."""
    return _header(*_bytes(source))


def _header(data: bytes, where: str) -> tuple[PointerConfig, dict[str, JsonValue]]:
    try:
        about: Any = json.loads(header_of(data)["trivet"])
        if not isinstance(about, dict) or about.get("format") != FORMAT:
            raise ValueError(f"its header is of another format: {str(about)[:80]}")
        return PointerConfig.model_validate(about["config"]), cast(dict[str, JsonValue], about["meta"])
    except (LookupError, ValueError, TypeError, ValidationError) as error:
        raise FileUnusable(
            f"{where} is no selector of ours; a checkpoint of Lever-Plus (.ckpt, .pt) is read by `read_seed_checkpoint`"
        ) from error


def selector_of(config: PointerConfig, state: Mapping[str, Tensor], where: str) -> PointerSelector:
    """A selector with exactly these weights. Draws no random numbers. Raises FileUnusable naming keys."""
    require_layout({key: value.shape for key, value in state.items()}, config, where)
    if wrong := [key for key, value in state.items() if not value.is_floating_point() or not value.isfinite().all()]:
        raise FileUnusable(f"{where}: {named(wrong)}: not finite; take another checkpoint, this training broke")
    with torch.device("meta"):
        selector = PointerSelector(config)
    selector.load_state_dict({key: value.clone() for key, value in state.items()}, strict=True, assign=True)
    return selector.eval()


def require_layout(shapes: Mapping[str, Sequence[int]], config: PointerConfig, where: str) -> None:
    """Raises FileUnusable unless these are the weights that a selector of this configuration has."""
    if max(config.hidden, config.embedding_dim) > WIDEST or config.layers > len(shapes):
        raise FileUnusable(f"{where} holds {len(shapes)} weights and asks for {config!r}; it is damaged")
    with torch.device("meta"):
        expected = {key: tuple(value.shape) for key, value in PointerSelector(config).state_dict().items()}
    missing, extra = expected.keys() - shapes.keys(), shapes.keys() - expected.keys()
    other = [key for key in expected.keys() & shapes.keys() if tuple(shapes[key]) != expected[key]]
    if missing or extra or other:
        found = [f"{key} is {list(shapes[key])}, not {list(expected[key])}" for key in sorted(other)[:NAMED_AT_MOST]]
        parts = [f"missing: {named(missing)}"] * bool(missing) + [f"not of this network: {named(extra)}"] * bool(extra)
        raise FileUnusable(f"{where} holds other weights than a selector with {config!r}: {'; '.join(parts + found)}")


def named(keys: Iterable[str]) -> str:
    """The first of them, sorted, and how many more there are."""
    ordered = sorted(keys)
    more = len(ordered) - NAMED_AT_MOST
    return ", ".join(ordered[:NAMED_AT_MOST]) + (f" … and {more} more" if more > 0 else "")


def _bytes(source: bytes | Path) -> tuple[bytes, str]:
    if isinstance(source, bytes):
        return source, "the checkpoint"
    try:
        return source.read_bytes(), str(source)
    except OSError as error:
        raise FileUnusable(f"{source} cannot be read ({error.strerror}); name a checkpoint") from error


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
