"""Every backend that the contract suites hold to its promises: how it is made, and what it can do.

A suite asks for those that can do what its test is about: `@those(CHAT, STOPS)`. A backend that is added here is held
to everything that it says it can do, by every suite; what it cannot do stands in the README's table.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

CHAT = "answers"
SEES = "takes pictures"
CHECKS = "refuses what is no picture"
DRAWS = "draws by a seed"
STOPS = "ends at a stop"
CUTS = "says what was cut at the limit"
COUNTS = "counts tokens"
STREAMS = "tells an answer word by word"
BATCHES = "takes batches"
OVERFLOWS = "names a prompt that is too long"
LIKELIHOOD = "log-likelihoods of texts"
ALIKE = "log-likelihoods are those of lm-evaluation-harness"
JUDGES = "log-likelihoods of answers"
LOADS = "loads any weights of a text model"
EMBEDS = "embeds"
MEANS = "texts that mean the same lie close"
RERANKS = "reranks"

LONG = " ".join(f"word{number}" for number in range(30))
CONTEXT_TOKENS = 1024
TOO_LONG = "word1 " * 2 * CONTEXT_TOKENS
"""As a prompt; no backend that has a limit here takes it."""


class Backend(NamedTuple):
    """One backend."""

    opened: Callable[[Path], AbstractContextManager[Any]]
    """The backend of a folder of weights, of recorded answers …, or of an empty one that it needs nothing of."""
    can: frozenset[str]
    furnish: Callable[[Path], object] = lambda folder: None
    """Fills an empty folder with the weights that it is held to; with LOADS, others can be given as well."""
    marks: tuple[pytest.MarkDecorator, ...] = ()


def those(
    *needs: str, without: str | None = None, using: str = "backend", marks: dict[str, Any] | None = None
) -> pytest.MarkDecorator:
    """The test runs with each backend that can do all of `needs`, and not what is named `without`.

    using: the fixture that opens it. marks: of the test, by the names of backends, beside those that they always have.
    """
    return pytest.mark.parametrize(
        using,
        [
            pytest.param(name, id=name, marks=[*backend.marks, *filter(None, [(marks or {}).get(name)])])
            for name, backend in BACKENDS.items()
            if backend.can.issuperset(needs) and without not in backend.can
        ],
        indirect=True,
    )


@contextmanager
def one_thread() -> Generator[None]:
    """Tiny models gain nothing from more, and on a busy machine they wait for them."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _plain(make: Callable[[], Any]) -> Callable[[Path], AbstractContextManager[Any]]:
    """A backend that needs no folder."""
    return _from_folder(lambda folder: make())


def _from_folder(make: Callable[[Path], Any]) -> Callable[[Path], AbstractContextManager[Any]]:
    @contextmanager
    def opened(folder: Path) -> Generator[Any]:
        yield make(folder)

    return opened


# scripted, recorded, and a class after lm-evaluation-harness


def _scripted() -> Any:
    from models.scripted import ScriptedChat

    return ScriptedChat()


def _scripted_with_rules() -> Any:
    from models.scripted import Rule, ScriptedChat

    return ScriptedChat([Rule(prompt="Say it", answer=LONG)])


PROMPTS = ("Say it", f"Say it: {LONG}", "예산은 ₩35,750,000 😀 입니까?", "עברית مرحبا e\u0301 \u200d", "no\0byte")
"""What the suites ask word for word."""
NUMBERED = tuple(f"Say it {number}" for number in range(6))
HALF_A_PAIR = "Say \ud83d"
CONVERSATION = (("system", "Be brief"), ("user", "Hello"), ("assistant", "Hello."), ("user", "Say it"))


def _record(folder: Path) -> None:
    joined = "\n\n".join(text for _, text in CONVERSATION)
    rows = [{"prompt": prompt, "response": LONG} for prompt in (*PROMPTS, *NUMBERED, HALF_A_PAIR, joined)]
    (folder / "answers.jsonl").write_text("\n".join(json.dumps(row) for row in rows))


def _replay(folder: Path) -> Any:
    from models.scripted import ReplayChat

    return ReplayChat(folder / "answers.jsonl")


def _harness(folder: Path) -> Any:
    from models.backends import open_backend

    return open_backend("tests.models.harness_lm.PlainLM", args={"pretrained": str(folder)})


def _hflm(folder: Path) -> Any:
    from models.backends import open_backend

    args: dict[str, Any] = {"pretrained": str(folder), "batch_size": 4, "device": "cpu"}
    return open_backend("lm_eval.models.huggingface.HFLM", args=args)


# over HTTP: a real server in a thread


@contextmanager
def _served(make: Callable[[str], Any], **settings: Any) -> Generator[Any]:
    from tests.models.server import serving, spoken

    with serving() as server:
        server.answer = lambda body: f"예산은 😀 e\u0301 {spoken(body)}"
        server.context_tokens = CONTEXT_TOKENS
        for name, value in settings.items():
            setattr(server, name, value)
        yield make(server.base_url)


def _openai(base_url: str) -> Any:
    from models.openai import OpenAIChat
    from tests.models.server import MODEL

    return OpenAIChat(MODEL, base_url=base_url, timeout_s=10)


def _responses(base_url: str) -> Any:
    from models.openai import OpenAIChat
    from tests.models.server import MODEL

    return OpenAIChat(MODEL, responses=True, base_url=base_url, timeout_s=10)


def _curator(base_url: str) -> Any:
    from models.backends import open_backend
    from tests.models.server import MODEL

    return open_backend("curator", name=f"hosted_vllm/{MODEL}", args={"api_base": base_url}, timeout_s=10)


def _almost(said: dict[str, Any]) -> dict[str, Any]:
    """As servers say it that are almost like OpenAI: no usage, thoughts beside the answer, fields of their own."""
    left_out = ("usage", "object", "created", "created_at", "tools", "tool_choice", "parallel_tool_calls", "logprobs")
    kept: dict[str, Any] = {name: value for name, value in said.items() if name not in left_out}
    kept["timings"] = {"predicted_ms": 3.5}
    if "choices" in kept:
        kept["choices"] = [_thinking(choice) for choice in kept["choices"]]
    if "output" in kept:
        kept["output"] = [{"type": "reasoning", "id": "r", "content": [{"text": "Well."}]}, *kept["output"]]
    return kept | ({"response": _almost(kept["response"])} if "response" in kept else {})


def _thinking(choice: dict[str, Any]) -> dict[str, Any]:
    thoughts = {"reasoning_content": "Let me see.", "reasoning": "Let me see.", "tool_calls": []}
    said = {name: {**choice[name], **thoughts} for name in ("message", "delta") if name in choice}
    if said.get("delta", {}).get("content") == "":
        said["delta"]["content"] = None
    ended = {"stop": "eos_token", "length": "model_length"}.get(choice["finish_reason"])
    return choice | said | {"finish_reason": ended, "stop_reason": None, "matched_stop": 7}


def _openai_embedder(base_url: str) -> Any:
    from models.embedders import OpenAIEmbedder
    from tests.models.server import MODEL

    return OpenAIEmbedder(MODEL, base_url=base_url, timeout_s=10)


# transformers, in this process: tiny models of random weights


def text_weights(folder: Path) -> None:
    """A Llama."""
    from tests.models.tiny import make_tiny_model

    make_tiny_model(folder, context_tokens=CONTEXT_TOKENS)


def seeing_weights(shape: str) -> Callable[[Path], None]:
    """Of a shape that sees: qwen2, qwen (2.5), qwen3 or llava."""

    def furnish(folder: Path) -> None:
        from tests.models import tiny_vision

        getattr(tiny_vision, f"make_tiny_{shape}")(folder, context_tokens=CONTEXT_TOKENS)

    return furnish


def _causal(folder: Path) -> Any:
    from models.causal_lm import CausalLM

    return CausalLM(str(folder), device="cpu")


def _vision(folder: Path) -> Any:
    from models.causal_lm import HFVision

    return HFVision(str(folder), device="cpu")


# vLLM, in this process


def _wider_text_weights(folder: Path) -> None:
    """A Llama with heads of a size that vLLM takes."""
    from tests.models.tiny import make_tiny_model

    make_tiny_model(folder, hidden=64, context_tokens=CONTEXT_TOKENS)


@contextmanager
def _vllm(folder: Path) -> Generator[Any]:
    from models.backends import open_backend
    from models.local import release_model

    # a tenth of the memory, nothing compiled: an engine that starts soon
    args: dict[str, Any] = {"pretrained": str(folder), "gpu_memory_utilization": 0.1, "enforce_eager": True}
    yield open_backend("vllm", args=args, pictures=True)
    release_model()


# embedders and rerankers


def _embedder(name: str) -> Callable[[], Any]:
    def make() -> Any:
        from models.embedders import open_embedder

        return open_embedder(name)

    return make


def _sentence_transformer(folder: Path) -> Any:
    from models.embedders import open_embedder

    return open_embedder(str(folder))


def _bundled_weights() -> Any:
    from models.weight_files import minilm_folder

    return _sentence_transformer(minilm_folder())


def _embedder_weights(folder: Path) -> None:
    from tests.models.tiny import make_tiny_embedder

    make_tiny_embedder(folder)


def _cross_encoder_weights(labels: int) -> Callable[[Path], None]:
    def furnish(folder: Path) -> None:
        from tests.models.cross_encoders import write_trained

        write_trained(folder, labels=labels)

    return furnish


def _scripted_reranker() -> Any:
    from models.embedders import open_reranker

    return open_reranker("scripted")


def _cross_encoder(folder: Path) -> Any:
    from models.embedders import open_reranker

    return open_reranker(str(folder))


def _digits() -> Any:
    from tasks.lever.digits.digits_judge import DigitsJudge
    from tests.contracts.digits_world import untrained

    return DigitsJudge(untrained())


WITH_ACCELERATE = pytest.mark.skipif(importlib.util.find_spec("accelerate") is None, reason="HFLM needs accelerate")
HAS_VLLM = importlib.util.find_spec("vllm") is not None
WITH_VLLM = (
    pytest.mark.engines,
    pytest.mark.skipif(not HAS_VLLM, reason="vLLM is not installed here: `make engines` makes an environment with it"),
    pytest.mark.filterwarnings("default"),
)
"""Marks of a backend that needs vLLM; the warnings of its libraries are theirs."""

HARNESS = frozenset({LIKELIHOOD, ALIKE, LOADS})
SCRIPTED = frozenset({CHAT, SEES, CHECKS, STOPS, CUTS, COUNTS, STREAMS, JUDGES})
SERVED = frozenset({CHAT, SEES, CHECKS, STOPS, CUTS, COUNTS, STREAMS, OVERFLOWS})
ALMOST = SERVED - {COUNTS}
"""Of a server that does not count."""
LOCAL = frozenset({CHAT, DRAWS, STOPS, CUTS, COUNTS, STREAMS, BATCHES, OVERFLOWS, LIKELIHOOD})
SEEING = LOCAL | {SEES, CHECKS, JUDGES}

BACKENDS: dict[str, Backend] = {
    "scripted": Backend(_plain(_scripted), SCRIPTED),
    "scripted with rules": Backend(_plain(_scripted_with_rules), SCRIPTED),
    "replay": Backend(_from_folder(_replay), frozenset({CHAT, STOPS}), _record),
    "lm_eval LM": Backend(
        _from_folder(_harness), frozenset({CHAT, STOPS, BATCHES, LIKELIHOOD, ALIKE, LOADS}), text_weights
    ),
    "openai": Backend(lambda folder: _served(_openai), SERVED | {DRAWS}),
    "openai, almost": Backend(lambda folder: _served(_openai, dialect=_almost), ALMOST | {DRAWS}),
    "responses": Backend(lambda folder: _served(_responses), SERVED),
    "responses, almost": Backend(lambda folder: _served(_responses, dialect=_almost), ALMOST),
    "curator": Backend(lambda folder: _served(_curator), SERVED | {DRAWS}),
    "lm_eval HFLM": Backend(_from_folder(_hflm), HARNESS, text_weights, marks=(pytest.mark.peers, WITH_ACCELERATE)),
    "hf": Backend(_from_folder(_causal), LOCAL | {ALIKE, LOADS}, text_weights),
    "hf Qwen2-VL": Backend(_from_folder(_vision), SEEING, seeing_weights("qwen2")),
    "hf Qwen2.5-VL": Backend(_from_folder(_vision), SEEING, seeing_weights("qwen")),
    "hf Qwen3-VL": Backend(_from_folder(_vision), SEEING, seeing_weights("qwen3")),
    "hf LLaVA": Backend(_from_folder(_vision), SEEING, seeing_weights("llava")),
    "vllm": Backend(_vllm, (LOCAL | {LOADS}) - {STREAMS}, _wider_text_weights, marks=WITH_VLLM),
    "vllm Qwen2.5-VL": Backend(_vllm, SEEING - {STREAMS}, seeing_weights("qwen"), marks=WITH_VLLM),
    "vllm Qwen3-VL": Backend(_vllm, SEEING - {STREAMS}, seeing_weights("qwen3"), marks=WITH_VLLM),
    "digits": Backend(_plain(_digits), frozenset({JUDGES, SEES})),
    "minilm": Backend(_plain(_embedder("minilm")), frozenset({EMBEDS, MEANS})),
    "minilm:fp32": Backend(_plain(_embedder("minilm:fp32")), frozenset({EMBEDS, MEANS})),
    "minilm:bf16": Backend(_plain(_embedder("minilm:bf16")), frozenset({EMBEDS, MEANS})),
    "e5:fp32": Backend(_plain(_embedder("e5:fp32")), frozenset({EMBEDS, MEANS})),
    "sentence-transformers": Backend(_from_folder(_sentence_transformer), frozenset({EMBEDS}), _embedder_weights),
    "sentence-transformers MiniLM": Backend(_plain(_bundled_weights), frozenset({EMBEDS, MEANS})),
    "openai embeddings": Backend(lambda folder: _served(_openai_embedder), frozenset({EMBEDS})),
    "scripted reranker": Backend(_plain(_scripted_reranker), frozenset({RERANKS})),
    "cross-encoder": Backend(_from_folder(_cross_encoder), frozenset({RERANKS}), _cross_encoder_weights(1)),
    "cross-encoder of two labels": Backend(
        _from_folder(_cross_encoder), frozenset({RERANKS}), _cross_encoder_weights(2)
    ),
}
"""The one list: by name, in the order of the README's table."""
