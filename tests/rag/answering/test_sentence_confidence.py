"""How sure a sentence is, by hand-worked sums of the constants."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.rag.answering.extractive import Evidence, confidence_of

ALL = Evidence(
    wrong_type=False,
    open_type=False,
    in_text=1.0,
    focus_in_text=1.0,
    nowhere=0.0,
    missing=False,
    other_period=False,
    first_hit=1.0,
)


@pytest.mark.parametrize(
    ("lacks", "confidence"),
    [
        ({}, 0.937),  # -1.6 + 2.3 + 1.0 + 1.0 = 2.7
        ({"wrong_type": True}, 0.769),  # 2.7 - 1.5 = 1.2
        ({"open_type": True}, 0.909),  # 2.7 - 0.4 = 2.3
        ({"missing": True}, 0.786),  # 2.7 - 1.4 = 1.3
        ({"other_period": True}, 0.900),  # 2.7 - 0.5 = 2.2
        ({"first_hit": 0.5}, 0.900),  # 2.7 - 0.5 = 2.2
        ({"in_text": 0.5, "nowhere": 0.5}, 0.679),  # 2.7 - 1.15 - 0.8 = 0.75
        ({"focus_in_text": 0.0}, 0.846),  # 2.7 - 1.0 = 1.7
    ],
    ids=str,
)
def test_confidence_falls_with_what_the_sentence_lacks(lacks: dict[str, Any], confidence: float) -> None:
    assert confidence_of(ALL._replace(**lacks)) == pytest.approx(confidence, abs=0.001)
