"""Encoders beside a judge: one device has room for one of them."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

from tasks.lever.judge.judges import encoder_spec, open_encoder
from tests.models.tiny_vision import make_tiny_clip


def test_a_clip_is_let_go_of_by_who_has_done_with_it(tmp_path: Path):
    encoder = open_encoder(encoder_spec(str(make_tiny_clip(tmp_path)), adapters=None))
    left = weakref.ref(encoder)
    del encoder
    gc.collect()
    assert left() is None
