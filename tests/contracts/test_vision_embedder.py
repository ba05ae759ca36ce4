"""What every encoder of pictures and texts must do, whichever runs behind the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest

from models.clip import ClipEmbedder
from models.model_errors import RequestRefused
from models.protocols import VisionEmbedder
from tasks.lever.digits.digits_judge import DigitsEncoder
from tests.contracts.digits_world import scenes, untrained
from tests.models.tiny_vision import make_png, make_tiny_clip

NOISE = [make_png(0), make_png(1, width=40, height=24), make_png(2, mode="L"), make_png(3, mode="RGBA"), make_png(0)]
TEXTS = ["What is it?", "그림에 무엇이 있습니까?", "", "no\0byte", "half a pair \ud83d", "long " * 300, "What is it?"]


class Subject(NamedTuple):
    """An encoder, and pictures that it takes: the first and the last one are the same."""

    encoder: VisionEmbedder
    pngs: Sequence[bytes]


@pytest.fixture(scope="module", params=["clip", "digits"])
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    if request.param == "clip":
        return Subject(ClipEmbedder(str(make_tiny_clip(tmp_path_factory.mktemp("clip"))), device="cpu"), NOISE)
    pngs = scenes()
    return Subject(DigitsEncoder(untrained()), [*pngs, pngs[0]])


@pytest.fixture
def encoder(subject: Subject) -> VisionEmbedder:
    return subject.encoder


@pytest.fixture
def pngs(subject: Subject) -> Sequence[bytes]:
    return subject.pngs


def test_rows_are_unit_vectors_of_the_stated_dimension(encoder: VisionEmbedder, pngs: Sequence[bytes]):
    for vectors, count in ((encoder.embed_images(pngs), len(pngs)), (encoder.embed_texts(TEXTS), len(TEXTS))):
        assert vectors.dtype == np.float32
        assert vectors.shape == (count, encoder.dimension)
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_a_vector_of_a_picture_depends_on_it_alone(encoder: VisionEmbedder, pngs: Sequence[bytes]):
    alone = np.concatenate([encoder.embed_images([png]) for png in reversed(pngs)])[::-1]
    assert np.array_equal(encoder.embed_images(pngs), alone)


def test_a_vector_of_a_text_depends_on_it_alone(encoder: VisionEmbedder):
    alone = np.concatenate([encoder.embed_texts([text]) for text in reversed(TEXTS)])[::-1]
    assert np.array_equal(encoder.embed_texts(TEXTS), alone)


def test_other_pictures_and_other_texts_have_other_vectors(encoder: VisionEmbedder, pngs: Sequence[bytes]):
    assert not np.allclose(*encoder.embed_images(pngs[:2]))
    assert not np.allclose(*encoder.embed_texts(TEXTS[:2]))


def test_what_is_no_picture_is_refused(encoder: VisionEmbedder):
    with pytest.raises(RequestRefused):
        encoder.embed_images([b"no picture"])
