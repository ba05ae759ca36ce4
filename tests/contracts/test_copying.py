"""A model that repeats what it is told, or complains: templates, padding and marks as each backend sets them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from models.protocols import BatchChat, Chat, ChatRequest, LogLikelihood, Message, Text
from tests.contracts.backends import BACKENDS, BATCHES, CHAT, COUNTS, LIKELIHOOD, LOADS, STOPS, one_thread, those
from tests.contracts.copier import BEGIN, GARBLED, PADDED, TWICE, make_copier, some_words

pytestmark = pytest.mark.slow
SPOKEN = [(" ".join(said), " ".join(beside)) for said, beside in map(some_words, map(random.Random, range(24)))]
"""What the user says, and what the system says beside it; lengths differ, so that a batch is padded."""


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with one_thread():
        return make_copier(tmp_path_factory.mktemp("copier"))


@pytest.fixture(scope="session")
def copier(request: pytest.FixtureRequest, weights: Path) -> Iterator[Any]:
    with one_thread(), BACKENDS[request.param].opened(weights) as opened:
        yield opened


def copying(*needs: str) -> pytest.MarkDecorator:
    return those(LOADS, *needs, using="copier")


def request(said: str, beside: str | None = None, **fields: Any) -> ChatRequest:
    system = () if beside is None else (Message(role="system", content=(Text(text=beside),)),)
    messages = (*system, Message(role="user", content=(Text(text=said),)))
    return ChatRequest.model_validate({"messages": messages, "max_tokens": 20, **fields})


def written(said: str) -> str:
    """A prompt in the model's own marks, but for its beginning."""
    return f"<|user|>{said}<|end|><|assistant|>"


@copying(CHAT)
def test_it_repeats_what_it_is_told(copier: Chat):
    assert [copier.complete(request(said)).text for said, _ in SPOKEN[:12]] == [said for said, _ in SPOKEN[:12]]


@copying(CHAT)
def test_it_repeats_the_user_and_not_the_system(copier: Chat):
    assert [copier.complete(request(*both)).text for both in SPOKEN[:12]] == [said for said, _ in SPOKEN[:12]]


@copying(CHAT, BATCHES)
def test_it_repeats_each_of_a_batch_of_many_lengths(copier: BatchChat):
    asked = [request(*both) if number % 2 else request(both[0]) for number, both in enumerate(SPOKEN)]
    found: dict[int, Any] = dict(copier.complete_many(asked))
    assert [found[number].text for number in range(len(asked))] == [said for said, _ in SPOKEN]


@copying(CHAT)
def test_words_without_a_template_are_not_put_into_one(copier: Chat):
    assert copier.complete(request("apple bread", template=False)).text == GARBLED


@copying(CHAT)
@pytest.mark.parametrize("beginning", ["", BEGIN], ids=["left to the tokenizer", "written out"])
def test_a_prompt_as_it_stands_has_one_beginning(copier: Chat, beginning: str):
    said = SPOKEN[0][0]
    assert copier.complete(request(beginning + written(said), template=False)).text == said


@copying(CHAT, COUNTS)
def test_a_limit_cuts_between_words(copier: Chat):
    answer = copier.complete(request("moon iron jar kite", max_tokens=2))
    assert (answer.text, answer.finish_reason, answer.completion_tokens) == ("moon iron", "length", 2)


@copying(CHAT, STOPS)
def test_a_stop_ends_it_within_its_words(copier: Chat):
    assert copier.complete(request("moon iron jar kite", stop=("on jar",))).text == "moon ir"


@copying(LIKELIHOOD)
def test_it_is_sure_of_what_it_repeats_and_of_nothing_else(copier: LogLikelihood):
    pairs = [(written(said), said) for said, _ in SPOKEN] + [(written("moon iron"), "moon jar")]
    found = dict(copier.loglikelihood(pairs))
    assert all(found[number].greedy and found[number].total > -0.1 for number in range(len(SPOKEN)))
    assert not found[len(SPOKEN)].greedy
    assert found[len(SPOKEN)].total < -3


@pytest.mark.parametrize(
    ("prompt", "blanks", "answer"),
    [
        pytest.param(BEGIN + written("moon iron"), 0, "moon iron", id="as it should be"),
        pytest.param(BEGIN + written("moon iron"), 5, PADDED, id="padding without a mask"),
        pytest.param(BEGIN + BEGIN + written("moon iron"), 0, TWICE, id="begun twice"),
        pytest.param(written("moon iron"), 0, GARBLED, id="no beginning"),
        pytest.param(f"{BEGIN}<|user|>moon iron<|end|>", 0, GARBLED, id="nobody's turn"),
        pytest.param(f"{BEGIN}moon iron", 0, GARBLED, id="no marks"),
    ],
)
def test_what_is_wrong_with_a_prompt_changes_its_answer(weights: Path, prompt: str, blanks: int, answer: str):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(weights)
    model: Any = AutoModelForCausalLM.from_pretrained(weights)
    read = [tokenizer.pad_token_id] * blanks + tokenizer.encode(prompt, add_special_tokens=False)
    tokens = torch.tensor([read])
    whole = model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=20, do_sample=False)
    assert tokenizer.decode(whole[0, len(read) :], skip_special_tokens=True) == answer
