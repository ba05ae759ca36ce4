"""A model of transformers: where its weights lie, how it is loaded and takes pictures, and adapters (LoRA) added.

Source of LoRA: Hu et al. 2021, arXiv:2106.09685; the library peft reads adapters and knows their kinds.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from cachetools import LRUCache, cached

from models.model_errors import ModelError, ModelUnavailable
from models.prompts import Sight
from models.weight_files import (
    GENERATOR_FILES,
    digest_files,
    digest_folder,
    gguf_in,
    hub_folder,
    label_of,
    read_json,
    read_once,
    require_safetensors,
)

if TYPE_CHECKING:
    from torch import Tensor

DTYPES = ("auto", "float32", "bfloat16", "float16", "float64")
CONTEXT_NAMES = ("n_positions", "max_position_embeddings", "n_ctx")  # of GPT-2, of most others, of a few old ones
UNKNOWN_CONTEXT = 2048  # tokens, where neither the model nor its tokenizer says; as lm-evaluation-harness takes it
SAID_CHARS = 200  # of the message of a library that an error quotes
UNKNOWN_SHAPE = ("does not recognize this architecture", "Unrecognized configuration class", "Unrecognized model in")
NO_LIMIT = 10**9  # a tokenizer's `model_max_length` beyond this means that it does not know
ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
PREFIX = "base_model.model."  # how the names of an adapter's weights begin, in peft's layout


class Weights(NamedTuple):
    """The files of a model, and the options with which it is loaded."""

    folder: Path
    label: str  # the name as ids show it
    fingerprint: str
    dtype: str  # as a torch name, `auto` resolved
    adapter: Path | None = None
    trust_remote_code: bool = False
    gguf: str | None = None  # name of a GGUF file in the folder, in place of safetensors


class Loaded(NamedTuple):
    """A model in memory; typed Any because transformers picks the classes from the folder."""

    model: Any
    tokenizer: Any
    context_tokens: int  # most tokens of prompt and answer together
    end_tokens: frozenset[int]
    sight: Sight | None = None  # how it takes pictures; None: it takes none
    pictures: Pictures | None = None  # those that it was shown last

    @property
    def end_token(self) -> int:
        """The id of the token that ends an answer: the tokenizer's own end token, where the model takes it for one."""
        end_id = self.tokenizer.eos_token_id
        return end_id if end_id in self.end_tokens or not self.end_tokens else min(self.end_tokens)

    @property
    def prefix_token(self) -> int:
        """The id of the token that stands before a text without a context. Raises ModelUnavailable."""
        candidates = (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id)
        token = next((token for token in candidates if token is not None), None)  # Qwen names none for the beginning
        if token is None:
            raise ModelUnavailable("the tokenizer has neither a token for the beginning of a text nor one for its end")
        return token


def find_weights(
    name: str,
    *,
    revision: str | None = None,
    dtype: str = "auto",
    peft: str | None = None,
    trust_remote_code: bool = False,
    merges: bool = True,
    gguf_file: str | None = None,
) -> Weights:
    """Find the files of a model and fingerprint them, without loading anything. Raises ModelUnavailable.

    peft: folder or hub name of a LoRA. merges: the library peft will merge it, so both are checked.
    """
    if gguf_file is not None:
        folder = hub_folder(name, revision, kind="model", patterns=(gguf_file,))
        if peft:
            raise ModelUnavailable(f"peft={peft}: adapters are added to safetensors alone, and {gguf_file} is GGUF")
        file = gguf_in(folder, gguf_file)
        return Weights(folder, file.stem, digest_files([file]), _dtype({}, dtype), gguf=gguf_file)
    patterns = (*GENERATOR_FILES, *(("*.py",) if trust_remote_code else ()))
    folder = hub_folder(name, revision, kind="model", patterns=patterns)
    config = model_config(folder)
    label, fingerprint, adapter = label_of(name, folder), digest_folder(folder, patterns), None
    if peft:
        adapter = hub_folder(peft, kind="LoRA", patterns=patterns)
        if merges:
            check_adapter(adapter)
        label = f"{label}+{adapter.resolve().name}"
        fingerprints = f"{fingerprint}{digest_folder(adapter, patterns)}"
        fingerprint = hashlib.sha256(fingerprints.encode()).hexdigest()[:12]
    return Weights(folder, label, fingerprint, _dtype(config, dtype), adapter, trust_remote_code)


VIT_B_32 = "openai/clip-vit-base-patch32"
# its main branch has pickled weights only; this commit of the hub's own conversion has the same ones as safetensors
SAFE_REVISIONS = {VIT_B_32: "c237dc49a33fc61debc9276459120b7eac67e7ef"}


def find_clip(name: str, *, adapters: Path | None = None) -> Weights:
    """Find a CLIP and fingerprint its weights, without loading anything. Raises ModelUnavailable.

    name: `clip` (ViT-B/32, 512 wide), `NAME` or `NAME@REVISION` of the hub (`openai/clip-vit-large-patch14`, 768), or
    a folder; with or without `hf:` before it. adapters: folder of LoRA weights to add.
    """
    name = name.removeprefix("hf:")
    name = VIT_B_32 if name == "clip" else name
    pinned = f"{name}@{SAFE_REVISIONS[name]}" if name in SAFE_REVISIONS else name
    weights = find_weights(pinned, peft=str(adapters) if adapters else None)
    kind = model_config(weights.folder).get("model_type")
    if kind != "clip":
        raise ModelUnavailable(
            f"{weights.folder} holds no CLIP (its config.json says model_type {kind!r}); name one that does"
        )
    require_safetensors(weights.folder)
    return weights


def model_config(folder: Path) -> dict[str, Any]:
    """Return the model's config.json. Raises ModelUnavailable where the folder has none that can be read."""
    config = read_json(folder / "config.json")
    if not config:
        raise ModelUnavailable(f"{folder} holds no model: there is no config.json in it; name the folder that has one")
    return config


def _dtype(config: dict[str, Any], dtype: str) -> str:
    """Return the name of the dtype; for `auto` the first known one that the configuration declares, else float32."""
    if dtype != "auto":
        return dtype
    text = config.get("text_config") or {}  # of the language model inside a vision-language model
    declared = [part.get(field) for part in (text, config) for field in ("dtype", "torch_dtype")]
    return next((name for name in declared if name in DTYPES and name != "auto"), "float32")


def load_model(
    weights: Weights,
    *,
    device: str | None,
    device_map: Any,
    max_length: int | None,
    pixels: dict[str, int] | None = None,
) -> Loaded:
    """Return the model with its adapter, on its device. Only safetensors and GGUF are read. Raises ModelUnavailable.

    pixels: `min_pixels` and `max_pixels` of the pictures that it will be shown; None: it reads text alone.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, AutoTokenizer

    source: dict[str, Any] = {"local_files_only": True, "trust_remote_code": weights.trust_remote_code}
    gguf_source = {"gguf_file": weights.gguf} if weights.gguf else {}
    with read_once() if weights.gguf else nullcontext(), name_failures(weights.folder):
        kind: Any = AutoModelForCausalLM if pixels is None else AutoModelForImageTextToText
        processor: Any = None
        if pixels is None:
            tokenizer = AutoTokenizer.from_pretrained(weights.folder, **gguf_source, **source)
        else:
            processor = read_processor(weights.folder, pixels)
            tokenizer = processor.tokenizer
        if weights.gguf is None:
            require_safetensors(weights.folder)
        device = device_for(device)
        model, info = kind.from_pretrained(
            weights.folder,
            **source,
            **(gguf_source or {"use_safetensors": True}),
            **({} if device_map is None else {"device_map": device_map}),
            dtype=getattr(torch, weights.dtype),
            output_loading_info=True,
        )
        if missing := sorted(info["missing_keys"]):  # transformers would make them up
            further = f", and so are {len(missing) - 1} others" if len(missing) > 1 else ""
            raise ModelUnavailable(
                f"the weights in {weights.folder} are not whole: {missing[0]} is missing{further}; fetch them again, "
                "or name a model of the kind that is asked for"
            )
        require_vocabulary(tokenizer, weights.folder)
        model = model if weights.adapter is None else merge_adapter(model, weights.adapter)
        model = model if device_map is not None else model.to(device)
    sight = None
    if processor is not None:
        sight = sight_of(processor, model.config)
        sight = sight._replace(names_types="mm_token_type_ids" in inspect.signature(model.forward).parameters)
    if tokenizer.pad_token_id is None:
        # any token will do: the attention mask hides padding
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)
    return Loaded(
        model=model.eval(),
        tokenizer=tokenizer,
        context_tokens=max_length or context_tokens_of(model.config, tokenizer),
        end_tokens=end_tokens_of(model.generation_config, tokenizer),
        sight=sight,
        pictures=Pictures(sight) if sight else None,
    )


def device_for(name: str | None) -> str:
    """Return the torch name of a device; None: CUDA if there is one, else the CPU. Raises ModelUnavailable."""
    import torch

    device = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ModelUnavailable(f"device={name}: there is none here ({reason}); give cpu, cuda or cuda:0") from error
    return device


def context_tokens_of(config: Any, tokenizer: Any) -> int:
    """Return the most tokens of prompt and answer together that config or tokenizer declare, else UNKNOWN_CONTEXT."""
    tokens = declared_context(config.to_dict()) or tokenizer.model_max_length
    return tokens if tokens and tokens < NO_LIMIT else UNKNOWN_CONTEXT


def declared_context(config: Mapping[str, Any]) -> int | None:
    """Return the context length in tokens that a config.json declares; None where it declares none."""
    declared = [part.get(field) for part in (config.get("text_config") or {}, config) for field in CONTEXT_NAMES]
    return next((tokens for tokens in declared if isinstance(tokens, int)), None)


def refuse_longer(weights: Weights, max_length: int | None) -> None:
    """Raises ModelUnavailable for a context beyond the positions that config.json gives the model, if it says any."""
    config = read_json(weights.folder / "config.json")
    text = config.get("text_config") or config
    positions = declared_context(config)
    if not max_length or not positions:
        return
    rope = text.get("rope_scaling") or text.get("rope_parameters") or {}
    # YaRN and its kin stretch the positions that the model was trained with by a factor
    stretched = (rope.get("original_max_position_embeddings") or positions) * (rope.get("factor") or 1)
    most = max(positions, int(stretched))
    if max_length > most:
        raise ModelUnavailable(
            f"max_length={max_length} is more than the {most} tokens that {weights.label} has positions for; give no "
            "more than these, or leave it out"
        )


def end_tokens_of(generation_config: Any, tokenizer: Any) -> frozenset[int]:
    """Return the ids of the tokens that end an answer; empty if neither generation config nor tokenizer names one."""
    token_ids = generation_config.eos_token_id
    token_ids = tokenizer.eos_token_id if token_ids is None else token_ids
    return frozenset(token_ids if isinstance(token_ids, list) else [] if token_ids is None else [token_ids])


@contextmanager
def hide_progress() -> Generator[None]:
    """Hide the progress bars of transformers inside the block, and restore the setting after it."""
    from transformers.utils import logging as progress

    bars = progress.is_progress_bar_enabled()
    progress.disable_progress_bar()
    try:
        yield
    finally:
        if bars:
            progress.enable_progress_bar()


@contextmanager
def name_failures(folder: Path) -> Generator[None]:
    """Turn whatever loading raises inside the block into ModelUnavailable, with its remedy; hide progress bars."""
    try:
        with hide_progress():
            yield
    except ModelError:
        raise
    except Exception as error:  # code of others: a damaged file makes it raise anything
        remedy = "fetch it again, all of its files"
        if any(words in str(error) for words in UNKNOWN_SHAPE):
            remedy = "this kind of model does not run in this process: take another one, or serve it behind an "
            remedy += "OpenAI-compatible endpoint (vLLM, llama.cpp)"
        elif "custom code" in str(error):  # as transformers asks for trust_remote_code
            remedy = "give trust_remote_code=True if you trust the code that comes with it, where that can be given"
        reason = " ".join(str(error).split())[:SAID_CHARS].rstrip(".") or type(error).__name__
        raise ModelUnavailable(f"the model in {folder} cannot be loaded: {reason}; {remedy}") from error


def require_vocabulary(tokenizer: Any, folder: Path) -> None:
    """Raises ModelUnavailable for a tokenizer without one, which transformers would make up."""
    if len(tokenizer.get_vocab()) <= len(tokenizer.all_special_tokens):
        raise ModelUnavailable(f"{folder} holds no vocabulary; fetch the files of its tokenizer too (tokenizer.json)")


def check_adapter(folder: Path) -> None:
    """Raises ModelUnavailable for a folder that holds no adapter, or without the library that reads them."""
    if importlib.util.find_spec("peft") is None:
        raise ModelUnavailable(f"peft={folder} needs the library peft, which is not installed; run `pip install peft`")
    if not read_json(folder / ADAPTER_CONFIG):
        raise ModelUnavailable(
            f"{folder} holds no adapter: there is no {ADAPTER_CONFIG} in it; name the folder that has one"
        )
    if not (folder / ADAPTER_WEIGHTS).is_file():
        raise ModelUnavailable(
            f"{folder} holds no {ADAPTER_WEIGHTS}, and other weight formats can run code when they are read; "
            "save the adapter again with a newer peft"
        )


def merge_adapter(model: Any, folder: Path) -> Any:
    """Return the model with an adapter merged into its weights. Raises ModelUnavailable for one that does not fit."""
    from peft import PeftConfig, get_peft_model, set_peft_model_state_dict  # pyright: ignore[reportMissingImports]
    from safetensors.torch import load_file
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightRenaming, rename_source_key

    config: Any = PeftConfig.from_pretrained(str(folder))
    if config.is_prompt_learning:
        raise ModelUnavailable(
            f"the adapter in {folder} is of the kind {config.peft_type.value}, a prompt that was learned; "
            "only adapters that can be added to the weights are read, such as LoRA"
        )
    config.inference_mode = True  # its weights are not to be trained
    weights = load_file(folder / ADAPTER_WEIGHTS)
    try:
        # peft silently ignores adapters that were trained before the layers of Qwen-VL and LLaVA were moved
        moves = [move for move in get_model_conversion_mapping(model) if isinstance(move, WeightRenaming)]
        moved_weights = {
            PREFIX + rename_source_key(name.removeprefix(PREFIX), moves, [])[0]: weight
            for name, weight in weights.items()
        }
        wrapped: Any = get_peft_model(model, config)
        read = set_peft_model_state_dict(wrapped, moved_weights)
    except (ValueError, RuntimeError, KeyError) as error:
        raise _adapter_misfit(folder, " ".join(str(error).split())[:SAID_CHARS].rstrip(".")) from error
    if read.unexpected_keys:
        raise _adapter_misfit(folder, f"{read.unexpected_keys[0]} has no place in this one")
    prefixes = (wrapped.base_model.prefix, ".modules_to_save.")  # the model's own weights are listed as missing too
    if missing := [name for name in read.missing_keys if any(part in name for part in prefixes)]:
        raise _adapter_misfit(folder, f"{missing[0]} is missing in its file")
    return wrapped.merge_and_unload(safe_merge=True)  # which refuses NaN


def _adapter_misfit(folder: Path, reason: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"the adapter in {folder} does not fit the model: {reason}; give the model that it was trained with, and all "
        "files of the adapter"
    )


KINDS = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "llava")
"""Types of models whose processors put one token for each part of a picture, and do not cut pictures up."""


class Kind(NamedTuple):
    """The two ways in which transformers can load a model: with its vision encoder, or as a language model alone."""

    sees: bool  # the model takes pictures
    reads_text_alone: bool  # transformers can load it as a language model without the encoder


def kind_of(name: str, revision: str | None = None, *, gguf_file: str | None = None) -> Kind:
    """Return the kind of a model in a folder or on the hub; loads nothing. Raises ModelUnavailable without files."""
    folder = hub_folder(name, revision, kind="model", patterns=(gguf_file or "config.json",))
    if gguf_file:
        gguf_in(folder, gguf_file)
    config = {} if gguf_file else model_config(folder)
    if "vision_config" not in config:
        return Kind(sees=False, reads_text_alone=True)
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return Kind(sees=True, reads_text_alone=config.get("model_type") in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def read_processor(folder: Path, pixels: dict[str, int]) -> Any:
    """Return a model's processor: tokenizer and picture processor, by Pillow everywhere. Raises ModelUnavailable."""
    from transformers import AutoConfig, AutoImageProcessor
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

    source: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    config = AutoConfig.from_pretrained(folder, **source)
    if config.model_type not in KINDS:
        raise ModelUnavailable(
            f"the model in {folder} takes pictures in a way that is not supported in this process, or takes none; take "
            "one of the Qwen-VL (2, 2.5, 3) or LLaVA kind, or serve this one behind an OpenAI-compatible endpoint"
        )
    kind: Any = PROCESSOR_MAPPING[type(config)]
    # without its part for videos, which cannot be had without torchvision
    names = [name for name in kind.get_attributes() if name != "video_processor"]
    without_videos: Any = type(kind.__name__, (kind,), {"get_attributes": staticmethod(lambda: names)})
    processor = without_videos.from_pretrained(folder, **source)
    processor.image_processor = AutoImageProcessor.from_pretrained(folder, backend="pil", **source, **pixels)
    if pixels and "max_pixels" not in inspect.get_annotations(processor.image_processor.valid_kwargs):
        raise ModelUnavailable(
            f"the model in {folder} has a size of its own for pictures; leave {' and '.join(pixels)} out"
        )
    return processor


def sight_of(processor: Any, config: Any) -> Sight:
    """Return how a model takes pictures; its tokenizer is given the processor's chat template on the way."""
    tokenizer, token = processor.tokenizer, processor.image_token
    tokenizer.chat_template = processor.chat_template or tokenizer.chat_template  # many keep theirs in a file apart
    around = [getattr(config, f"vision_{side}_token_id", None) for side in ("start", "end")]
    # Qwen-VL writes <|vision_start|> and <|vision_end|> around a picture, LLaVA nothing
    marks: list[str] = tokenizer.convert_ids_to_tokens(around) if None not in around else ["", ""]
    token_id = tokenizer.convert_tokens_to_ids(token)
    return Sight(processor=processor, token=token, token_id=token_id, written=token.join(marks))


PICTURE_BYTES = 512 * 2**20
"""Most memory for preprocessed pictures kept for later prompts: demonstrations are shown many times."""


class Pictures:
    """A cache of preprocessed pictures: the newest are kept, since demonstrations come in many prompts."""

    def __init__(self, sight: Sight) -> None:
        prepared: LRUCache[Any, dict[str, Tensor]] = LRUCache(
            PICTURE_BYTES, lambda tensors: sum(tensor.nbytes for tensor in tensors.values())
        )
        self._prepare = cached(prepared, lock=Lock())(sight.picture_tensors)

    def join_inputs(self, pngs: Sequence[bytes]) -> dict[str, Tensor]:
        """Return the model's inputs for all pictures, in order; empty for no pictures. Raises RequestRefused."""
        import torch

        distinct = list(dict.fromkeys(pngs))
        with ThreadPoolExecutor() as pool:  # Pillow and numpy let go of the interpreter
            tensors_of = dict(zip(distinct, pool.map(self._prepare, distinct), strict=True))
        parts = [tensors_of[png] for png in pngs]
        return {name: torch.cat([part[name] for part in parts]) for name in (parts[0] if parts else ())}
