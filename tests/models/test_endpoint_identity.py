"""Weights are told apart by what a server says of them and by its answers to probes, beyond what a repeat changes."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from models.endpoint_identity import PROBES, Fingerprint, Probe, identify, take_fingerprint
from models.model_errors import TransientModelError
from models.openai import OpenAIChat
from tests.models.server import MODEL, Server

BEFORE = Fingerprint(
    address="http://127.0.0.1:1/v1",
    name="m",
    card={"root": "a", "created": 1},
    probes=(Probe(text="the sea", log_probs={"the": -0.5, "a": -2.0, "odd": -7.0}), Probe(text="x", steady=False)),
    seen_at=datetime(2026, 1, 1, tzinfo=UTC),
)


def changed(**fields: Any) -> Fingerprint:
    probe = BEFORE.probes[0].model_copy(
        update={name: fields.pop(name) for name in ("text", "log_probs") if name in fields}
    )
    return BEFORE.model_copy(update={"probes": (probe, Probe(text="y")), **fields})


@pytest.mark.parametrize(
    ("now", "differences"),
    [
        (changed(), []),
        (changed(log_probs={"the": -0.6, "a": -2.2, "odd": -9.0}), []),
        (changed(log_probs={"the": -0.8, "a": -2.0}), ["probe 1 of 2 differs"]),
        (changed(log_probs={}), []),
        (changed(text="a lake"), ["probe 1 of 2 differs"]),
        (changed(card={"root": "b"}), ["its server says root 'b', and said 'a'"]),
        (changed(card={}), []),
    ],
    ids=["same", "rounding", "moved", "no longer offered", "other words", "another root", "says nothing"],
)
def test_weights_differ_by_words_likelihoods_and_what_the_server_says(now: Fingerprint, differences: list[str]) -> None:
    assert list(BEFORE.differences(now)) == differences


def test_an_address_is_known_in_any_spelling_and_another_one_is_other_weights(server: Server) -> None:
    plain = take_fingerprint(OpenAIChat(MODEL, base_url=server.base_url))
    spelled = server.base_url.replace("127.0.0.1", "LOCALHOST") + "/?key=secret-of-mine"
    assert take_fingerprint(OpenAIChat(MODEL, base_url=spelled)).digest == plain.digest
    assert plain.model_copy(update={"address": "http://127.0.0.1:2/v1"}).digest != plain.digest


def test_an_endpoint_that_is_away_is_the_one_seen_last(server: Server) -> None:
    chat = OpenAIChat(MODEL, base_url="http://127.0.0.1:9/v1")
    with pytest.raises(TransientModelError, match="is it running"):
        identify(chat, [])
    identity = identify(chat, [BEFORE])
    assert (identity.fingerprint, "those of 2026-01-01 00:00 UTC" in identity.remarks[0]) == (BEFORE, True)


def test_a_time_of_creation_that_moves_with_the_clock_says_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = OpenAIChat(MODEL, base_url=server.base_url)
    assert take_fingerprint(chat).card["created"] == 0
    monkeypatch.setattr(chat.endpoint, "read_card", lambda: {"created": int(time.time()), "root": "/weights"})
    assert take_fingerprint(chat).card == {"root": "/weights"}


@pytest.mark.parametrize("steady", [True, False], ids=["no words", "other words each time"])
def test_an_endpoint_whose_probes_tell_nothing_is_named(server: Server, steady: bool) -> None:
    server.probes = lambda place: "" if steady else str(len(server.probed))
    chat = OpenAIChat(MODEL, base_url=server.base_url)
    first = identify(chat, [])
    again = identify(chat, [first.fingerprint])
    assert ["its name is trusted" in remark for one in (first, again) for remark in one.remarks] == [True, True]
    assert again.fingerprint == first.fingerprint


def test_what_is_known_costs_a_request_for_each_probe_and_what_is_new_two(server: Server) -> None:
    chat = OpenAIChat(MODEL, base_url=server.base_url)
    first = identify(chat, [])
    assert (first.is_new, len(server.probed)) == (True, 2 * len(PROBES))
    assert not identify(chat, [BEFORE, first.fingerprint]).is_new
    assert len(server.probed) == 3 * len(PROBES)
