"""What every backend promises about pictures: those that see, and those that do not."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from models.model_errors import RequestRefused
from models.protocols import BatchChat, Chat, ChatRequest, Image, Message, Text
from tests.contracts.backends import BATCHES, CHAT, CHECKS, COUNTS, SEES, those
from tests.models.tiny_vision import make_huge_png, make_png, make_png_without_pixels

SEEING = those(CHAT, SEES)


def showing(*pngs: bytes, prompt: str = "Read it", max_tokens: int = 20) -> ChatRequest:
    parts = (*(Image(png=png) for png in pngs), Text(text=prompt))
    return ChatRequest(messages=(Message(role="user", content=parts),), max_tokens=max_tokens)


BROKEN = {
    "no picture": b"no picture",
    "nothing": b"",
    "half a picture": make_png(0)[:-40],
    "whole, but for its pixels": make_png_without_pixels(),
    "another kind of picture": b"GIF89a\x01\0\x01\0\0\0\0;",
}


@SEEING
def test_pictures_matter_and_so_does_their_order(backend: Chat):
    one, two = make_png(0), make_png(1, width=24)
    both, turned = showing(one, two), showing(two, one)
    assert backend.complete(showing(one)).text != backend.complete(showing(two)).text
    assert backend.complete(both).text != backend.complete(turned).text


@SEEING
@pytest.mark.parametrize(("width", "height"), [(1, 1), (300, 1)], ids=["a dot", "flat"])
def test_a_picture_of_an_odd_shape_is_taken_or_refused(backend: Chat, width: int, height: int):
    with contextlib.suppress(RequestRefused):
        assert backend.complete(showing(make_png(0, width=width, height=height), max_tokens=16)).text
    assert backend.complete(showing(make_png(0))).text


@SEEING
def test_threads_may_show_pictures(backend: Chat):
    asked = [showing(make_png(seed), max_tokens=16) for seed in range(4)]
    expected = [backend.complete(one) for one in asked]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(backend.complete, asked)) == expected


@those(CHAT, SEES, COUNTS, BATCHES)
def test_a_larger_picture_counts_for_more(backend: Chat):
    none, small, both = (
        backend.complete(showing(*(make_png(seed) for seed in range(count)), max_tokens=1)).prompt_tokens
        for count in range(3)
    )
    assert none is not None
    assert small is not None
    assert both is not None
    assert 0 < small - none == both - small


@those(CHAT, without=SEES)
def test_a_picture_is_refused_by_what_cannot_see(backend: Chat):
    with pytest.raises(RequestRefused):
        backend.complete(showing(make_png(0)))


@those(CHAT, CHECKS)
def test_what_is_no_picture_is_refused(backend: Chat):
    for broken in BROKEN.values():
        with pytest.raises(RequestRefused, match=r"give a whole PNG"):
            backend.complete(showing(broken))


@those(CHAT, CHECKS)
def test_a_picture_of_900_million_pixels_is_refused_by_its_header(backend: Chat, huge: bytes):
    with pytest.raises(RequestRefused, match="A picture is too large"):
        backend.complete(showing(huge))


@those(CHAT, SEES, BATCHES)
def test_a_picture_that_is_none_costs_its_batch_nothing(backend: BatchChat):
    found = dict(backend.complete_many([showing(BROKEN["half a picture"]), showing(make_png(0))]))
    assert isinstance(found[0], RequestRefused)
    assert found[1] == backend.complete(showing(make_png(0)))


@pytest.fixture(scope="session")
def huge() -> bytes:
    return make_huge_png()
