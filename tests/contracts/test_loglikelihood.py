"""What every model that tells likelihoods promises; lm-evaluation-harness is the yardstick."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from models.protocols import LogLikelihood
from tests.contracts.backends import ALIKE, BACKENDS, LIKELIHOOD, LOADS, those
from tests.models.tiny import make_tiny_model

if TYPE_CHECKING:
    from tests.models.harness_lm import PlainLM

CONTEXT_TOKENS = 48
PAIRS = [
    ("The answer is", " word1 word2"),
    ("The answer is ", "word1"),
    ("The answer is", " A"),
    ("The answer is", " B"),
    ("", "word3 abc"),
    ("", "<|begin|>abc"),
    ("<|begin|>Once", " word4"),
    ("x" * 70, " word5 word6"),
    ("Two\n\n", "lines  \n"),
    ("예산은", " 얼마 😀"),
]
TEXTS = ["word1 word2 abc", "a" * 40, "b" * 48, "c" * 49, "long words " * 20, "예산"]
SAME_WEIGHTS = those(ALIKE, LOADS, using="model")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("tiny"), context_tokens=CONTEXT_TOKENS)


@pytest.fixture(scope="session")
def harness(folder: Path) -> PlainLM:
    from tests.models.harness_lm import PlainLM

    return PlainLM(str(folder))


@pytest.fixture(scope="session")
def model(request: pytest.FixtureRequest, folder: Path) -> Iterator[LogLikelihood]:
    """Each with the weights of the yardstick."""
    with BACKENDS[request.param].opened(folder) as opened:
        yield opened


def expected(harness: PlainLM, method: str, rows: list[tuple[str, ...]]) -> list[Any]:
    from lm_eval.api.instance import Instance

    instances: list[Any] = [Instance(method, {}, row, number) for number, row in enumerate(rows)]  # pyright: ignore
    return getattr(harness, method)(instances)


@SAME_WEIGHTS
def test_a_continuation_is_as_likely_as_the_harness_says(model: LogLikelihood, harness: PlainLM):
    found = dict(model.loglikelihood(PAIRS))
    for number, (total, greedy) in enumerate(expected(harness, "loglikelihood", [*PAIRS])):
        assert found[number].total == pytest.approx(total, abs=1e-4)
        assert found[number].greedy == greedy


@SAME_WEIGHTS
def test_a_whole_text_is_as_likely_as_the_harness_says(model: LogLikelihood, harness: PlainLM):
    found = dict(model.loglikelihood_rolling(TEXTS))
    for number, total in enumerate(expected(harness, "loglikelihood_rolling", [(text,) for text in TEXTS])):
        assert found[number] == pytest.approx(total, abs=1e-4)


@those(LIKELIHOOD)
def test_each_pair_comes_once(backend: LogLikelihood):
    assert sorted(number for number, _ in backend.loglikelihood(PAIRS)) == list(range(len(PAIRS)))
    assert sorted(number for number, _ in backend.loglikelihood_rolling(TEXTS)) == list(range(len(TEXTS)))


@those(LIKELIHOOD)
def test_the_likelihoods_of_all_next_words_are_one(backend: LogLikelihood):
    words = [f" word{number}" for number in range(30)]
    found = [likelihood for _, likelihood in backend.loglikelihood([("The answer is", word) for word in words])]
    assert 0 < sum(math.exp(likelihood.total) for likelihood in found) < 1
    assert sum(likelihood.greedy for likelihood in found) <= 1
