"""Samples and figures of IFEval."""

from __future__ import annotations

from math import sqrt
from typing import Any

import pytest

from tasks.evaluation.evaluation_records import Item, Reply, Response, Sample
from tasks.grading.rules.rule_grading import grade_rules, instruction_share, summarise_rules

NO_COMMA, QUOTED = "punctuation:no_comma", "startend:quotation"


def item(key: str = "1", *kinds: str) -> Item:
    kinds = kinds or (NO_COMMA, QUOTED)
    return Item(id=key, prompts=("Say it.",), detail={"instruction_id_list": [*kinds], "kwargs": [{} for _ in kinds]})


def graded(text: str, **more: Any) -> Sample:
    response = Response(item="1", turns=(Reply(text=text, key="k", **more),))
    return next(grade_rules([(item(), response)]))


def test_a_sample_has_all_four_figures() -> None:
    sample = graded('Sure!\n"one"')
    assert (sample.score, sample.values, sample.reason, sample.keys) == (
        0.0,
        {
            "prompt_level_strict": 0.0,
            "prompt_level_loose": 1.0,
            "instruction_level_strict": 0.5,
            "instruction_level_loose": 1.0,
        },
        f"not followed: {QUOTED}",
        ("k",),
    )
    assert sample.detail == {
        "instructions": [NO_COMMA, QUOTED],
        "followed_strict": [True, False],
        "followed_loose": [True, True],
    }


def test_reasoning_that_never_ends_is_no_answer() -> None:
    sample = graded("<think>hm", finish_reason="length")
    assert (sample.score, sample.missing, sample.truncated) == (0.0, True, True)
    assert sample.reason == "no answer: the reasoning was never closed"


def test_blank_lines_count_where_there_was_no_reasoning() -> None:
    first = Item(
        id="1",
        prompts=("Say it.",),
        detail={
            "instruction_id_list": ["length_constraints:nth_paragraph_first_word"],
            "kwargs": [{"num_paragraphs": 1, "nth_paragraph": 1, "first_word": "one"}],
        },
    )
    sample = next(grade_rules([(first, Response(item="1", turns=(Reply(text="\n\none"),)))]))
    assert (sample.values["prompt_level_strict"], sample.values["prompt_level_loose"]) == (0.0, 1.0)


def test_an_empty_response_is_missing_and_counts_as_wrong() -> None:
    sample = next(grade_rules([(item(), Response(item="1", turns=(Reply(text=" \n"),)))]))
    assert (sample.status, sample.score, sample.missing) == ("scored", 0.0, True)
    assert sample.reason == "no answer: the response is empty"


def test_an_item_with_an_unknown_rule_is_unscored_and_the_next_is_graded() -> None:
    bad = item("7", "poetry:rhyme")
    answers = [(bad, Response(item="7", turns=(Reply(text="a"),))), (item(), Response(item="1"))]
    unscored, scored = grade_rules(answers)
    assert (unscored.status, unscored.score, scored.status) == ("unscored", None, "scored")
    assert "'poetry:rhyme'" in unscored.reason


def summary_of(*texts: str) -> Any:
    items = [item("1"), item("2", NO_COMMA), item("3", QUOTED, QUOTED, NO_COMMA)]
    answered = [(one, Response(item=one.id, turns=(Reply(text=text),))) for one, text in zip(items, texts, strict=True)]
    return summarise_rules(grade_rules(answered))


def test_the_instruction_level_is_over_all_instructions() -> None:
    # followed strictly: 2 of 2, 0 of 1, 1 of 3; loosely the last one's quotes are found as well
    summary = summary_of('"one"', "a, b", 'Sure!\n"c"')
    assert summary.metrics == {
        "prompt_level_strict": 1 / 3,
        "prompt_level_loose": 2 / 3,
        "instruction_level_strict": 3 / 6,
        "instruction_level_loose": 5 / 6,
        "num_total": 3,
    }


def test_kinds_are_parts_and_one_figure_is_the_headline() -> None:
    summary = summary_of('"one"', "a, b", 'Sure!\n"c"')
    shares = {(one.metric, one.part): one.value for one in summary.estimates}
    assert shares["instruction_level_strict", f"instruction={NO_COMMA}"] == 2 / 3
    assert shares["instruction_level_strict", f"instruction={QUOTED}"] == 1 / 3
    assert shares["instruction_level_loose", f"instruction={QUOTED}"] == 1.0
    assert [one.metric for one in summary.estimates if one.headline] == ["prompt_level_strict"]


def test_the_error_bar_is_clustered_by_prompt() -> None:
    # share 3/6; residuals 2 - 1, 0 - 1/2, 1 - 3/2: squares 1, 1/4, 1/4
    share = instruction_share("m", {"1": [1, 1], "2": [0], "3": [0, 0, 1]})
    assert share.value == 0.5
    assert share.std_err == pytest.approx(sqrt(3 / 2 * 1.5) / 6)
    assert share.low is not None
    assert share.high is not None
    assert 0 < share.low < 0.5 < share.high < 1


def test_unscored_samples_are_in_no_mean() -> None:
    samples = [*grade_rules([(item(), Response(item="1", turns=(Reply(text='"a"'),)))])]
    samples.append(Sample(item="2", status="unscored", reason="?"))
    metrics = summarise_rules(samples).metrics
    assert (metrics["prompt_level_strict"], metrics["num_total"], metrics["num_unscored"]) == (1.0, 2, 1)
