"""Checkpoints of selectors: ours, safetensors with the configuration in the header, and those of Lever-Plus.

Source of the layouts of Lever-Plus (Lightning `.ckpt`, torch `.pt`): yunsoft2019/Lever-Plus (train.py,
workflows/grpo_post_train.py).
"""

from __future__ import annotations

import json
import math
import pickle
import pickletools
import re
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple, Self, cast

import torch
from pydantic import JsonValue, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.data.embeddings import header_of
from tasks.lever.lever_errors import FileUnusable
from tasks.lever.lever_records import SEED_CHOICES, WITH_ANSWERS, PoolRecipe, Sampler

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
MOST_BYTES = 8 << 20
"""Largest pickle that is read: checkpoints keep their numbers outside it."""
DAMAGED = (
    *(
        zipfile.BadZipFile,
        struct.error,
        OSError,
        EOFError,
        ValueError,
        RuntimeError,
        AssertionError,
        pickle.PickleError,
    ),
    *(LookupError, TypeError, AttributeError, OverflowError, MemoryError),
)
"""What zipfile, pickle and torch raise for files that are no checkpoints, or cut."""


class Opened(NamedTuple):
    """A selector from a file, whoever wrote it."""

    selector: PointerSelector
    notes: tuple[str, ...]
    """Notes for the user on how it was read; empty for our own files."""
    encoder: str | None
    """Encoder whose vectors it was trained with; checkpoints of Lever-Plus do not name it."""
    recipe: PoolRecipe
    """Pools that it was trained in. Where the file has none, those of the sampler in its name, else of RandSampler."""

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
    """The selector in a checkpoint of ours or of Lever-Plus. Raises FileUnusable.

    heads: of each layer, for a checkpoint of Lever-Plus; None takes `num_heads` from its hyper-parameters, else 1.
    """
    in_name: list[Sampler] = [one for one in SEED_CHOICES if one in path.name]
    sampler: Sampler = in_name[0] if in_name else "RandSampler"
    recipe = PoolRecipe(sampler=sampler, size=0)
    assumed = f"it does not tell in which pools it was trained; {sampler} is taken, by its name or for its age"
    if path.suffix in SEED_SUFFIXES:
        selector, notes = read_seed_checkpoint(path, heads=heads)
        return Opened(selector, (*notes, assumed), None, recipe)
    meta = read_header(path)[1]
    try:
        told = PoolRecipe.model_validate(meta[POOLS_OF]) if meta.get(POOLS_OF) else None
    except ValidationError as error:
        raise FileUnusable(f"{path}: `{POOLS_OF}` of its header is no recipe of pools: {error}") from error
    encoder = str(meta["encoder"]) if meta.get("encoder") else None
    return Opened(load_selector(path), () if told else (assumed,), encoder, told or recipe)


def read_seed_checkpoint(path: Path, *, heads: int | None = None) -> tuple[PointerSelector, list[str]]:
    """The pointer network in a checkpoint of Lever-Plus, and notes; its image and text encoders are not read.

    Raises FileUnusable for what is no such checkpoint, naming the keys that are missing or too many.
    """
    top = _texts_of(read_inert(path))
    if top is None:
        raise FileUnusable(f"{path} holds no dict of weights, and is no checkpoint; name a .ckpt or .pt file")
    state, notes = _pointer_state(top, path)
    weights = {key: one for key, one in state.items() if isinstance(one, Tensor) and one.is_floating_point()}
    if wrong := state.keys() - weights.keys():
        raise FileUnusable(f"{path}: {named(wrong)}: no tensors of a kind that weights have; it is another checkpoint")
    if sum(one.nbytes for one in weights.values()) > path.stat().st_size:
        raise FileUnusable(f"{path}: its weights share their numbers, and would unfold to more than the file holds")
    config, more = _config(weights, top, heads, path)
    selector = selector_of(config, {key: one.float().contiguous() for key, one in weights.items()}, str(path))
    return selector, [*notes, *more]


def _pointer_state(top: Mapping[str, Any], path: Path) -> tuple[dict[str, Any], list[str]]:
    """The entries of the pointer network, and notes on all others."""
    state, bare = _texts_of(top.get("state_dict")), _texts_of(top.get("model_state_dict"))
    whole = next((one for one in (state, top) if one and any(key.startswith(PREFIX) for key in one)), None)
    if whole is None:
        if bare is not None:
            return bare, []
        keys = [key[:100] for key in state or top]
        raise FileUnusable(
            f"{path} holds no pointer network: nothing below `{PREFIX}`, no `model_state_dict`; "
            f"its keys are {named(keys) or 'none'}. Name a v2 or v3 checkpoint of Lever-Plus"
        )
    outside = [key for key in whole if not key.startswith(PREFIX)]
    encoders = [key for key in outside if key.startswith(ENCODERS)]
    notes: list[str] = []
    if encoders:
        notes.append(f"{len(encoders)} weights of the image and text encoders were not read")
    if any("lora_" in key for key in encoders):
        notes.append("its encoders carry LoRA weights: embeddings of the plain encoders are not those it learnt from")
    if len(outside) > len(encoders):
        notes.append(f"{len(outside) - len(encoders)} entries of other parts were not read")
    return {key.removeprefix(PREFIX): one for key, one in whole.items() if key.startswith(PREFIX)}, notes


def _config(
    weights: Mapping[str, Tensor], top: Mapping[str, Any], heads: int | None, path: Path
) -> tuple[PointerConfig, list[str]]:
    """The configuration that the shapes tell. Layers are as many as have a number; a hole is found by its keys."""
    projection, entry = weights.get("query_proj.weight"), weights.get("input_proj.weight")
    if projection is None or projection.ndim != 2:
        raise FileUnusable(f"{path}: no query_proj.weight, but {named(weights) or 'nothing'}; it is no v2 network")
    hidden = projection.shape[0]
    layers = len({match[1] for key in weights if (match := LAYER.match(key))})
    gate = any(key.startswith("query_update_gate.") for key in weights)
    notes = [] if gate else ["it has no state gate (`gate=False`): every pick sees the same state"]
    if not layers:
        notes.append("it has no cross-attention (`layers=0`): it is a bi-encoder")
    if heads is None:
        places = ("hyper_parameters", "datamodule_hyper_parameters", "model_config")
        told = {one for place in places for one in _integers_named("num_heads", top.get(place))}
        if len(told) > 1:
            raise FileUnusable(f"{path}: its hyper-parameters name num_heads {sorted(told)}; say which one by `heads`")
        heads = told.pop() if told else None
        said = f"{heads} heads, as its hyper-parameters say"
        notes.append(
            said if heads else "nothing in it says how many heads it has; 1 is taken, the default of Lever-Plus"
        )
    try:
        dimension = entry.shape[-1] if entry is not None and entry.ndim else hidden
        config = PointerConfig(embedding_dim=dimension, hidden=hidden, layers=layers, heads=heads or 1, gate=gate)
    except ValidationError as error:
        raise FileUnusable(f"{path}: {heads} heads, {hidden} wide: {error.errors()[0]['msg']}") from error
    return config, notes


def _integers_named(name: str, value: Any) -> Iterator[int]:
    """Small integers under this key, however deep; what OmegaConf wraps them in, with a `_val`, is seen through."""
    waiting, seen = [value], set[int]()
    while waiting and len(seen) < LOOKED_AT_MOST:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        for mapping in filter(None, map(_texts_of, (one.items, one.state) if isinstance(one, Inert) else (one,))):
            waiting.extend(mapping.values())
            found = mapping.get(name)
            node = _texts_of(found.state) if isinstance(found, Inert) else None
            found = node.get("_val") if node else found
            if type(found) is int and 0 < found < MOST_HEADS:
                yield found


def _texts_of(value: Any) -> dict[str, Any] | None:
    """The entries of a dict under texts; None for anything else."""
    found = cast("dict[Any, Any]", value) if isinstance(value, dict) else None
    return None if found is None else {key: one for key, one in found.items() if isinstance(key, str)}


class Inert:
    """Stands for an object whose class is not imported: takes any arguments, members and state, and runs nothing."""

    items: dict[Any, Any]
    state: Any

    def __new__(cls, *args: object, **named: object) -> Self:
        del args, named
        made = super().__new__(cls)
        made.items, made.state = {}, None
        return made

    def extend(self, values: object) -> None:
        """Forget the members of a list or set."""


def _rebuild_tensor(storage: Any, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> Tensor:
    """torch's `_rebuild_tensor_v2`, which would enlarge a storage that is too small. Raises ValueError."""
    room = storage._untyped_storage.nbytes() // storage.dtype.itemsize
    last = offset + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    if min((offset, *size, *stride)) < 0 or (math.prod(size) and max(last + 1, math.prod(size)) > room):
        raise ValueError(f"a tensor of size {list(size)} does not fit into its storage of {room} numbers")
    return torch.empty(0, dtype=storage.dtype).set_(storage._untyped_storage, offset, size, stride)


class _Unpickler(pickle._Unpickler):  # pyright: ignore[reportPrivateUsage]
    """Python's unpickler with the opcodes that torch writes: C's would allocate whatever a pickle claims."""

    lengths: Mapping[str, int]
    """Bytes of each storage of the archive."""
    stack: list[Any]
    pop_mark: Callable[[], list[Any]]  # of pickle._Unpickler, which has no type stubs

    def find_class(self, module: str, name: str) -> Any:
        """The rebuilding of a tensor, OrderedDict, or Inert; torch itself looks for the classes of storages."""
        match module, name:
            case "torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2":
                return _rebuild_tensor
            case "torch._utils", "_rebuild_parameter":
                return lambda data, *_: data
            case "torch", "Size":
                return lambda size: size
            case "collections", "OrderedDict":
                return OrderedDict
            case _:
                return Inert

    def _load_storage(self) -> None:
        match pid := self.stack.pop():
            case ("storage", kind, str(key), _, int(count)) if 0 <= count * kind.dtype.itemsize <= self.lengths[key]:
                self.stack.append(self.persistent_load(pid))
            case _:
                raise ValueError("a storage that the archive lacks, or that is larger than its entry")

    def _keep_state(self) -> None:
        state = self.stack.pop()
        if isinstance(self.stack[-1], Inert):  # nothing else gets attributes: they might be methods
            self.stack[-1].state = state

    def _put(self, values: list[Any]) -> None:
        target = self.stack[-1].items if isinstance(self.stack[-1], Inert) else self.stack[-1]
        if type(target) not in (dict, OrderedDict):
            raise ValueError("items for what is no mapping")
        pairs = zip(values[::2], values[1::2], strict=True)
        # other keys are not needed, and to hash nested tuples may take for ever
        target.update((key, value) for key, value in pairs if isinstance(key, str | int))

    def _put_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._put([key, value])

    def _make_dict(self) -> None:
        values = self.pop_mark()
        self.stack.append({})
        self._put(values)

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        code: read
        for code, read in pickle._Unpickler.dispatch.items()  # pyright: ignore[reportPrivateUsage]
        if code in {ord(one.code) for one in pickletools.opcodes if one.proto <= 2 and not one.name.startswith("EXT")}
    } | {
        pickle.BINPERSID[0]: _load_storage,
        pickle.BUILD[0]: _keep_state,
        pickle.SETITEM[0]: _put_item,
        pickle.SETITEMS[0]: lambda self: self._put(self.pop_mark()),
        pickle.DICT[0]: _make_dict,
    }


def read_inert(path: Path) -> Any:
    """What `torch.save` wrote, of plain values, lists, tuples, dicts, tensors and Inert; nothing in it is run.

    Raises FileUnusable if it is no archive of torch's, damaged or too large.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {one.filename.partition("/")[2]: one for one in archive.infolist()}
            # a packed entry may expand to any size; constants.pkl is that of a program, which torch would open
            if any(one.compress_type != zipfile.ZIP_STORED for one in entries.values()) or "constants.pkl" in entries:
                raise ValueError("an archive of another kind")
            if entries["data.pkl"].file_size > MOST_BYTES or archive.testzip() is not None:
                raise ValueError("an entry is damaged, or too large for a checkpoint")
            lengths = {name.removeprefix("data/"): one.file_size for name, one in entries.items()}
        unpickler = type("Unpickler", (_Unpickler,), {"lengths": lengths})
        reader: Any = SimpleNamespace(__name__="inert", Unpickler=unpickler)
        return torch.load(str(path), map_location="cpu", pickle_module=reader, weights_only=False, mmap=True)
    except FileNotFoundError as error:
        raise FileUnusable(f"there is no {path}; name a checkpoint") from error
    except DAMAGED as error:
        reason = str(error)[:200] or type(error).__name__
        raise FileUnusable(
            f"{path} is no whole checkpoint ({reason}); name a .ckpt or .pt file, copy or download it again, or save "
            "one of a torch before 1.6 again"
        ) from error
