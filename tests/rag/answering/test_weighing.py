"""Answers of several ways to one question: those that agree are surer, those that others contradict less sure."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.rag.answering.weighing import SIGNS, Expected, Way, choose_draft, describe_drafts, weigh_drafts
from tasks.rag.answers import Draft, Short, Value

READ = Draft(
    "Revenue, 2019: USD 735 million [1]",
    confidence=0.6,
    short=Short(values=("735",), scale="million"),
    value=Value(exact="735000000", unit="USD", scale="million", display="735"),
)
SENTENCE = Draft("Revenue rose to $735 million in 2019 [1].", confidence=0.6)
OTHER = Draft("Costs fell to $12 million in 2019 [1].", confidence=0.6)
WITHHELD = Draft("An input is missing.", abstained=True)


def weigh(drafts: Mapping[Way, Draft]) -> dict[Way, Draft]:
    return weigh_drafts(drafts, is_named=True, expected=Expected())


def test_ways_that_agree_are_surer_than_ways_that_contradict_each_other() -> None:
    beside: list[dict[Way, Draft]] = [{}, {"sentence": SENTENCE}, {"sentence": OTHER}]
    alone, agreeing, against = (weigh({"read": READ, **others})["read"].confidence or 0 for others in beside)
    assert against < alone < agreeing


def test_the_likeliest_answer_is_chosen_and_what_is_withheld_never() -> None:
    drafts = weigh({"read": READ, "computed": WITHHELD, "cell": SENTENCE})
    assert drafts["computed"] is WITHHELD
    best = choose_draft(drafts)
    assert best
    assert best.confidence == max(drafts["read"].confidence or 0, drafts["cell"].confidence or 0)
    assert choose_draft({"computed": WITHHELD}) is None


def test_the_signs_of_an_answer_count_who_agrees_with_it() -> None:
    drafts: dict[Way, Draft] = {"read": READ, "cell": SENTENCE, "sentence": OTHER}
    signs = describe_drafts(drafts, is_named=True, expected=Expected())
    named = {way: dict(zip(SIGNS, values, strict=True)) for way, values in signs.items()}
    assert [named["read"][sign] for sign in ("one agrees", "agreeing", "disagreeing")] == [1, 0.6, 0.6]
    # two sentences say no value that could be compared
    assert [named["sentence"][sign] for sign in ("one agrees", "agreeing", "disagreeing")] == [0, 0, 0.6]
