"""Vectors of the digits' world: pictures and questions in one space, each keeping its own coordinates."""

from __future__ import annotations

import numpy as np
import pytest

from models.protocols import VisionEmbedder
from tasks.lever.digits.digits_judge import DigitsEncoder
from tasks.lever.digits.scenes import QUESTIONS
from tests.lever.digits.prompts import picture, weights

PNGS = [picture(left, right, seed) for left in (1, 4) for right in (2, 7) for seed in (0, 1)]


@pytest.fixture(scope="module")
def encoder() -> VisionEmbedder:
    return DigitsEncoder(weights())


def test_vectors_are_unit_vectors_of_one_space(encoder: VisionEmbedder):
    images, texts, classes = encoder.embed_images(PNGS), encoder.embed_texts(QUESTIONS), encoder.embed_classes(PNGS)
    assert classes is not None
    assert images.shape == (8, encoder.dimension)
    assert texts.shape == (3, encoder.dimension)
    assert classes.shape == (8, 20)
    for vectors in (images, texts, classes):
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)


def test_like_pictures_are_nearer_and_classes_tell_the_digits(encoder: VisionEmbedder):
    same_pair = np.repeat(np.eye(4, dtype=bool), 2, 0).repeat(2, 1) & ~np.eye(8, dtype=bool)
    other_pair = ~np.repeat(np.eye(4, dtype=bool), 2, 0).repeat(2, 1)
    images, classes = encoder.embed_images(PNGS), encoder.embed_classes(PNGS)
    assert classes is not None
    for vectors in (images, classes):
        likeness = vectors @ vectors.T
        assert likeness[same_pair].mean() > likeness[other_pair].mean() + 0.2
    seen = [(int(code[:10].argmax()), int(code[10:].argmax())) for code in classes]
    assert sum(one == (left, right) for one, (left, right) in zip(seen, PAIRS, strict=True)) >= 7


PAIRS = [(left, right) for left in (1, 4) for right in (2, 7) for _ in (0, 1)]
