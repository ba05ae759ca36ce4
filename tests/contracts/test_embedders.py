"""What every embedder must do, whichever runs behind the protocol."""

from __future__ import annotations

import numpy as np
import pytest

from models.embedders import embed_questions, family, open_embedder
from models.errors import ModelUnavailable
from models.protocols import Embedder
from models.weights import MINILM_PACKAGE, minilm_folder

TEXTS = ["The tender closes on 3 May.", "공고 번호 20240001", "", "no\0byte", "half a pair \ud83d", "long " * 3_000]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("minilm"),
        pytest.param("minilm:fp32"),
        pytest.param("minilm:bf16"),
        pytest.param("folder", marks=pytest.mark.slow),
    ],
)
def embedder(request: pytest.FixtureRequest) -> Embedder:
    return open_embedder(str(minilm_folder()) if request.param == "folder" else request.param)


def test_rows_are_unit_vectors_of_the_stated_dimension(embedder: Embedder) -> None:
    vectors = embedder.embed(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), embedder.dimension)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_no_texts_give_no_rows(embedder: Embedder) -> None:
    assert embedder.embed([]).shape == (0, embedder.dimension)


def test_a_vector_depends_on_its_text_alone(embedder: Embedder) -> None:
    together = embedder.embed(TEXTS)
    alone = np.concatenate([embedder.embed([text]) for text in reversed(TEXTS)])[::-1]
    assert np.array_equal(together, alone)


def test_questions_share_the_space_of_documents(embedder: Embedder) -> None:
    documents = embedder.embed(["The tender closes on 3 May.", "The cat sleeps."])
    question = embed_questions(embedder, ["When does the tender close?"])[0]
    assert np.argmax(documents @ question) == 0


def test_the_family_leaves_precision_out(embedder: Embedder) -> None:
    assert embedder.id == f"{family(embedder.id)}/{embedder.id.rpartition('/')[2]}"
    assert embedder.id.rpartition("/")[2] in ("fp32", "bf16")


@pytest.mark.parametrize(
    ("embedder_id", "expected"),
    [
        ("minilm@1f2e/bf16", "minilm@1f2e"),
        ("BAAI/bge-m3@77aa/fp32", "BAAI/bge-m3@77aa"),
        ("openai:org/model", "openai:org/model"),
    ],
)
def test_family(embedder_id: str, expected: str) -> None:
    assert family(embedder_id) == expected


@pytest.mark.parametrize("name", ["minilm:int4", "minilm:", "", "no such/model name", "nobody/nothing@main"])
def test_a_wrong_name_is_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(ModelUnavailable, match="embedder"):
        open_embedder(name)


def test_the_weights_package_is_never_imported() -> None:
    import sys

    open_embedder("minilm")
    assert MINILM_PACKAGE not in sys.modules
