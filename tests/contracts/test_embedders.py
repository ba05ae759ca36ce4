"""What every embedder must do, whichever runs behind the protocol."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from models.embedders import PRECISIONS, embed_questions, family_of, open_embedder
from models.model_errors import ModelUnavailable
from models.protocols import Embedder
from models.weight_files import MINILM_PACKAGE
from tests.contracts.backends import EMBEDS, MEANS, those

TEXTS = ["The tender closes on 3 May.", "공고 번호 20240001", "", "no\0byte", "half a pair \ud83d", "long " * 3_000]
REAL = {"sentence-transformers MiniLM": pytest.mark.slow}
EVERY = those(EMBEDS, marks=REAL)


@EVERY
def test_rows_are_unit_vectors_of_the_stated_dimension(backend: Embedder) -> None:
    vectors = backend.embed(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), backend.dimension)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@EVERY
def test_no_texts_give_no_rows(backend: Embedder) -> None:
    assert backend.embed([]).shape == (0, backend.dimension)


@EVERY
def test_a_vector_depends_on_its_text_alone(backend: Embedder) -> None:
    together = backend.embed(TEXTS)
    alone = np.concatenate([backend.embed([text]) for text in reversed(TEXTS)])[::-1]
    assert np.array_equal(together, alone)


@EVERY
def test_many_texts_keep_their_order(backend: Embedder) -> None:
    texts = ["word " * (1 + number * 7 % 20) + str(number) for number in range(70)]
    some = [0, 63, 64, 69]
    alone = np.concatenate([backend.embed([texts[number]]) for number in some])
    np.testing.assert_allclose(backend.embed(texts)[some], alone, atol=1e-4)


@those(EMBEDS, MEANS, marks=REAL)
def test_questions_share_the_space_of_documents(backend: Embedder) -> None:
    documents = backend.embed(["The tender closes on 3 May.", "The cat sleeps."])
    question = embed_questions(backend, ["When does the tender close?"])[0]
    assert np.argmax(documents @ question) == 0


@EVERY
def test_the_family_leaves_precision_out(backend: Embedder) -> None:
    stem = family_of(backend.id)
    assert backend.id in (stem, *(f"{stem}/{precision}" for precision in PRECISIONS))
    assert not stem.endswith(PRECISIONS)


@EVERY
def test_threads_may_share_an_embedder(backend: Embedder) -> None:
    texts = [f"The tender closes on {day} May." for day in range(12)]
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda text: backend.embed([text])[0], texts))
    assert np.array_equal(np.stack(rows), backend.embed(texts))


@pytest.mark.parametrize(
    ("embedder_id", "expected"),
    [
        ("minilm@1f2e/bf16", "minilm@1f2e"),
        ("e5@1f2e/fp32", "e5@1f2e"),
        ("BAAI/bge-m3@77aa/fp32", "BAAI/bge-m3@77aa"),
        ("openai:org/model", "openai:org/model"),
    ],
)
def test_family(embedder_id: str, expected: str) -> None:
    assert family_of(embedder_id) == expected


@pytest.mark.parametrize("name", ["minilm:int4", "minilm:", "e5:int4", "", "no such/model name", "nobody/nothing@main"])
def test_a_wrong_name_is_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(ModelUnavailable, match="embedder"):
        open_embedder(name)


def test_the_weights_package_is_never_imported() -> None:
    import sys

    open_embedder("minilm")
    assert MINILM_PACKAGE not in sys.modules
