"""Checkpoints of selectors: ours, safetensors with the configuration in the header, and those of Lever-Plus.

Source of the layouts of Lever-Plus (Lightning `.ckpt`, torch `.pt`): yunsoft2019/Lever-Plus (train.py,
workflows/grpo_post_train.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from pydantic import JsonValue, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from models.pointer import PointerConfig, PointerSelector
from storage.storage_errors import list_some
from tasks.lever.data.embeddings import NOT_OF_TORCH, Inert, load_torch, read_header
from tasks.lever.lever_errors import FileUnusable
from tasks.lever.lever_records import SEED_CHOICES, WITH_ANSWERS, PoolRecipe, Sampler, SelectionRule, Verdict

FORMAT = "trivet pointer selector"
POOLS_OF = "pools"
"""Entry of `meta` with the recipe of the pools that a selector was trained in."""
NAMED_AT_MOST, REASON_CHARS = 6, 500
"""Keys that an error names, and most of what it quotes of torch's own."""


def save_selector(selector: PointerSelector, *, meta: Mapping[str, JsonValue]) -> bytes:
    """Serialise weights and configuration of `selector` with `meta`; equal selectors give equal bytes."""
    about = {"format": FORMAT, "config": selector.config.model_dump(), "meta": dict(meta)}
    # one entry only: safetensors writes several in no fixed order
    header = {"trivet": json.dumps(about, sort_keys=True, allow_nan=False)}
    state = {key: value.detach().cpu().contiguous() for key, value in selector.state_dict().items()}
    return save(state, metadata=header)


def add_to_meta(data: bytes, **entries: JsonValue) -> bytes:
    """Return a checkpoint of ours with new or replaced entries of `meta`; its weights stay. Raises FileUnusable."""
    selector, meta = _read_own(data, "the checkpoint")
    return save_selector(selector, meta={**meta, **entries})


def load_selector(data: bytes, *, device: str = "cpu") -> PointerSelector:
    """Load the selector that `save_selector` wrote, ready for inference (`eval`). Draws no random numbers.

    Raises FileUnusable naming weights that are missing, too many, of another shape, or not finite.
    """
    return _read_own(data, "the checkpoint")[0].to(device)


def _read_own(data: bytes, where: str) -> tuple[PointerSelector, dict[str, JsonValue]]:
    """Read the selector and `meta` of a checkpoint of ours. Raises FileUnusable."""
    try:
        about: Any = json.loads(read_header(data)["trivet"])
        if not isinstance(about, dict) or about.get("format") != FORMAT:
            raise ValueError(f"its header is of another format: {str(about)[:80]}")
        if about["config"].get("prior"):
            problem = f"{where} begins as a rule (the option `prior`, which was removed)"
            raise FileUnusable(f"{problem}; train it anew, or use a better rule: `trivet lever predict mmr:0.5 …`")
        config, meta = PointerConfig.model_validate(about["config"]), cast(dict[str, JsonValue], about["meta"])
    except (LookupError, ValueError, TypeError, ValidationError) as error:
        raise FileUnusable(
            f"{where} is no selector of ours; a checkpoint of Lever-Plus (.ckpt, .pt) is read by `read_seed_checkpoint`"
        ) from error
    try:
        return build_selector(config, load(data), where), meta
    except (SafetensorError, ValueError) as error:
        raise FileUnusable(f"{where} is not whole ({error}); copy or train it again") from error


def build_selector(config: PointerConfig, state: Mapping[str, Tensor], where: str) -> PointerSelector:
    """Build a selector with exactly these weights, for inference, drawing nothing. Raises FileUnusable naming keys."""
    if max(config.hidden, config.embedding_dim) > 1 << 16 or config.layers > len(state):  # a header may name any
        raise FileUnusable(f"{where} holds {len(state)} weights and asks for {config!r}; it is damaged")
    with torch.device("meta"):  # shapes alone: no memory is taken and no random number is drawn
        selector = PointerSelector(config)
    if wrong := [key for key, value in state.items() if not value.is_floating_point() or not value.isfinite().all()]:
        raise FileUnusable(f"{where}: {list_keys(wrong)}: not finite; take another checkpoint, this training broke")
    try:
        selector.load_state_dict({key: value.clone() for key, value in state.items()}, strict=True, assign=True)
    except RuntimeError as error:
        reasons = " ".join(str(error).partition("PointerSelector:")[2].split())[:REASON_CHARS]
        raise FileUnusable(f"{where} holds other weights than a selector with {config!r}: {reasons}") from error
    return selector.eval()


def list_keys(keys: Iterable[str]) -> str:
    """List the first NAMED_AT_MOST keys, sorted, and how many more there are."""
    return list_some(sorted(keys), NAMED_AT_MOST)


SEED_SUFFIXES = (".ckpt", ".pt", ".pth")
PREFIX = "lever_lm.pointer_selector."
HEADS_IN = ("hyper_parameters", "datamodule_hyper_parameters", "model_config")
"""Entries of a checkpoint that may hold the number of heads."""
LAYER = re.compile(r"(?:cross_attn_layers|attn_norms)\.(\d+)\.")
LOOKED_AT_MOST = 20_000
"""Values of the hyper-parameters that are searched for the number of heads."""
MOST_HEADS = 1000


class OpenedSelector(NamedTuple):
    """A selector from a checkpoint, ours or Lever-Plus's, with what the file tells about its training."""

    selector: PointerSelector
    notes: tuple[str, ...]
    """Notes for the user on how it was read, such as pools that its name alone tells."""
    encoder: str | None
    """Encoder whose vectors it was trained with; checkpoints of Lever-Plus do not name it."""
    recipe: PoolRecipe
    """Pools that it was trained in. Where the file has none, those of the sampler in its name, else of RandSampler."""
    verdict: Verdict | None = None
    """Whether the network is used, or the rule that it was compared with; None where it was not compared."""

    @property
    def rule(self) -> SelectionRule | None:
        """The rule that is used in place of the network, where that was no better; None where the network is used."""
        return None if self.verdict is None or self.verdict.is_learned else self.verdict.rule

    @property
    def sees_answers(self) -> bool:
        """Whether it was trained on candidates with their answers."""
        return bool(self.encoder and self.encoder.endswith(WITH_ANSWERS))

    def require_encoder(self, encoder: str, *, dimension: int, path: Path, with_answers: bool | None = None) -> None:
        """Raise FileUnusable unless it reads vectors of this encoder.

        with_answers: whether candidates are shown to it with their answers; None does not look. One that does not name
        its encoder may have been trained on either.
        """
        own, theirs = ((name or "").removesuffix(WITH_ANSWERS) for name in (self.encoder, encoder))
        if own and theirs and own != theirs:
            raise FileUnusable(f"{path} was trained with vectors of {own}, and these are of {theirs}; embed anew")
        width = self.selector.config.embedding_dim
        if width != dimension:
            raise FileUnusable(
                f"{path} reads vectors of {width} numbers, and these have {dimension}; "
                "take the encoder that it was trained with"
            )
        if own and with_answers not in (None, self.sees_answers):
            raise FileUnusable(
                f"{path} was trained on candidates {'with' if self.sees_answers else 'without'} their answers, and "
                "here it would see them otherwise; train it anew, or give the embeddings that it was trained with"
            )


def open_selector(path: Path, *, heads: int | None = None) -> OpenedSelector:
    """Open the selector in a checkpoint of ours or of Lever-Plus. Raises FileUnusable.

    heads: of each layer, for a checkpoint of Lever-Plus; None takes `num_heads` from its hyper-parameters, else 1.
    """
    if path.suffix in SEED_SUFFIXES:
        selector, notes = read_seed_checkpoint(path, heads=heads)
        recipe, assumed = _assume_recipe(path.name)
        return OpenedSelector(selector, (*notes, assumed), None, recipe)
    try:
        return open_own(path.read_bytes(), path)
    except OSError as error:
        raise FileUnusable(f"{path} cannot be read ({error.strerror}); name a checkpoint") from error


def open_own(data: bytes, path: Path) -> OpenedSelector:
    """Open a checkpoint of ours from its bytes; `path` stands in errors, and its name for the pools if none are stored.

    Raises FileUnusable.
    """
    selector, meta = _read_own(data, str(path))
    try:
        stored_recipe = PoolRecipe.model_validate(meta[POOLS_OF]) if meta.get(POOLS_OF) else None
        verdict = Verdict.model_validate(meta["verdict"]) if meta.get("verdict") else None
    except ValidationError as error:
        raise FileUnusable(f"{path}: its header holds no recipe of pools, or no verdict: {error}") from error
    encoder = str(meta["encoder"]) if meta.get("encoder") else None
    recipe, assumed = (stored_recipe, None) if stored_recipe else _assume_recipe(path.name)
    return OpenedSelector(selector, (assumed,) if assumed else (), encoder, recipe, verdict)


def _assume_recipe(name: str) -> tuple[PoolRecipe, str]:
    """Return a recipe of pools by the name of a file that has none, with size 0, and a note about it."""
    in_name: list[Sampler] = [sampler for sampler in SEED_CHOICES if sampler in name]
    sampler: Sampler = in_name[0] if in_name else "RandSampler"
    note = f"it does not tell in which pools it was trained; {sampler} is taken, by its name or for its age"
    return PoolRecipe(sampler=sampler, size=0), note


def read_seed_checkpoint(path: Path, *, heads: int | None = None) -> tuple[PointerSelector, list[str]]:
    """Read the pointer network in a checkpoint of Lever-Plus, without its encoders; return it and notes.

    heads: as in `open_selector`. Raises FileUnusable for no such checkpoint, naming keys missing or too many.
    """
    try:
        top = _string_entries(load_torch(path, with_classes=True))
    except FileNotFoundError as error:
        raise FileUnusable(f"there is no {path}; name a checkpoint") from error
    except NOT_OF_TORCH as error:
        reason = str(error)[:200] or type(error).__name__
        raise FileUnusable(
            f"{path} is no whole checkpoint ({reason}); name a .ckpt or .pt file, copy or download it again, or save "
            "one of a torch before 1.6 again"
        ) from error

    # Lightning's `state_dict` has the network below a prefix, beside its encoders; GRPO's `model_state_dict` is bare
    places = [_string_entries(part) for part in ((top or {}).get("state_dict"), top)]
    lightning_state = next((part for part in places if part and any(key.startswith(PREFIX) for key in part)), {})
    network = {key.removeprefix(PREFIX): value for key, value in lightning_state.items() if key.startswith(PREFIX)}
    network = network or _string_entries((top or {}).get("model_state_dict"))
    if not network:
        keys = [key[:100] for key in next(filter(None, places), {})]
        raise FileUnusable(
            f"{path} holds no pointer network: nothing below `{PREFIX}`, no `model_state_dict`; "
            f"its keys are {list_keys(keys) or 'none'}. Name a v2 or v3 checkpoint of Lever-Plus"
        )
    notes: list[str] = []
    if outside := [key for key in lightning_state if not key.startswith(PREFIX)]:
        notes.append(f"{len(outside)} weights of the image and text encoders, and other entries, were not read")
    if any("lora_" in key for key in outside):
        notes.append("its encoders carry LoRA weights: embeddings of the plain encoders are not those it learnt from")

    weights = {key: value for key, value in network.items() if isinstance(value, Tensor) and value.is_floating_point()}
    if wrong := network.keys() - weights.keys():
        raise FileUnusable(
            f"{path}: {list_keys(wrong)}: no tensors of a kind that weights have; it is another checkpoint"
        )
    if sum(weight.nbytes for weight in weights.values()) > path.stat().st_size:  # views of one number, expanded
        raise FileUnusable(f"{path}: its weights share their numbers, and would unfold to more than the file holds")
    if heads is None:
        head_counts = {number for place in HEADS_IN for number in _find_head_counts((top or {}).get(place))} or {1}
        if len(head_counts) > 1:
            raise FileUnusable(
                f"{path}: its hyper-parameters name num_heads {sorted(head_counts)}; say which one by `heads`"
            )
        [heads] = head_counts
        notes.append(f"{heads} heads, as its hyper-parameters say, or by default where these are silent")
    config = _derive_config(weights, heads, path)
    if not config.gate:
        notes.append("it has no state gate (`gate=False`): every pick sees the same state")
    selector = build_selector(config, {key: weight.float().contiguous() for key, weight in weights.items()}, str(path))
    return selector, notes


def _derive_config(weights: Mapping[str, Tensor], heads: int, path: Path) -> PointerConfig:
    """Derive the configuration from the shapes of the weights. Raises FileUnusable.

    Distinct numbers of layers are counted; a gap in them is found later, by missing keys.
    """
    projection, input_projection = weights.get("query_proj.weight"), weights.get("input_proj.weight")
    if projection is None or projection.ndim != 2:
        raise FileUnusable(f"{path}: no query_proj.weight, but {list_keys(weights) or 'nothing'}; it is no v2 network")
    hidden = projection.shape[0]
    layers = len({match[1] for match in map(LAYER.match, weights) if match})
    gate = any(key.startswith("query_update_gate.") for key in weights)
    try:
        dimension = input_projection.shape[-1] if input_projection is not None and input_projection.ndim else hidden
        return PointerConfig(embedding_dim=dimension, hidden=hidden, layers=layers, heads=heads, gate=gate)
    except ValidationError as error:
        raise FileUnusable(f"{path}: {heads} heads, {hidden} wide: {error.errors()[0]['msg']}") from error


def _find_head_counts(value: Any) -> Iterator[int]:
    """Yield small integers under `num_heads` at any depth, `_val` of OmegaConf too, in up to LOOKED_AT_MOST dicts."""
    waiting, visited = [value], set[int]()
    while waiting and len(visited) < LOOKED_AT_MOST:
        current = waiting.pop()
        mapping = _string_entries(current.state if isinstance(current, Inert) else current)
        if id(current) in visited or mapping is None:
            continue
        visited.add(id(current))
        waiting.extend(mapping.values())
        entry = mapping.get("num_heads")
        if isinstance(entry, Inert):
            entry = (_string_entries(entry.state) or {}).get("_val")
        if type(entry) is int and 0 < entry < MOST_HEADS:
            yield entry


def _string_entries(value: Any) -> dict[str, Any] | None:
    """Return the entries of a dict whose keys are texts; None for anything else."""
    mapping = cast("dict[Any, Any]", value) if isinstance(value, dict) else None
    return None if mapping is None else {key: entry for key, entry in mapping.items() if isinstance(key, str)}
