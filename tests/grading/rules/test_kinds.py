"""The 25 kinds, one table: what follows an instruction and what just does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.grading.grading_records import RulesUnusable
from tasks.grading.rules.rule_checks import KINDS, arguments_of
from tasks.grading.rules.rule_grading import rule_of, rules_of


def read(name: str) -> list[Any]:
    return [json.loads(line) for line in Path(__file__).with_name(name).read_text("utf-8").splitlines()]


REFUSED = read("refused.jsonl")
CASES: list[tuple[Any, ...]] = [
    *(tuple(case.values()) for case in read("kinds.jsonl")),
    *(("detectable_format:json_format", {}, sign * 100_000, False) for sign in "[9"),
]
"""Kind, arguments, response, and whether it follows the instruction."""


@pytest.mark.parametrize(("kind", "arguments", "response", "followed"), CASES)
def test_a_rule_is_followed_or_not(kind: str, arguments: dict[str, Any], response: str, followed: bool) -> None:
    assert rule_of(kind, arguments)(response) is followed


def test_the_table_has_every_kind_both_ways() -> None:
    assert {(kind, followed) for kind, _, _, followed in CASES} == {
        (kind, way) for kind in KINDS for way in (True, False)
    }


EXAMPLES = {kind: arguments for kind, arguments, _, _ in CASES}


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text(st.characters() | st.sampled_from("*[]<>\"'`-\n\0 .!?,{}\ud800"), max_size=80))
def test_no_text_breaks_a_check(kind: str, text: str) -> None:
    assert rule_of(kind, EXAMPLES[kind])(text) in (True, False)


NEVER: dict[str, Any] = {
    "keyword": "xyzzy",
    "forbidden_words": ["xyzzy"],
    "keywords": ["xyzzy"],
    "section_spliter": "xyzzy",
    "prompt_to_repeat": "xyzzy",
    "end_phrase": "xyzzy",
    "first_word": "xyzzy",
    "letter": "@",
    "language": "fi",
    "postscript_marker": "P.P.S",
    "relation": "at least",
    "let_relation": "at least",
    "capital_relation": "at least",
    "num_paragraphs": 9,
    "nth_paragraph": 9,
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", KINDS)
def test_a_long_run_of_anything_is_read_once(kind: str) -> None:
    arguments = {name: NEVER.get(name, 10**9) for name in arguments_of(KINDS[kind]).model_fields}
    for unit in ("a", " ", "\n", ".", "!", "[", "<<", "*", "\n*", "\n-", "{", "p.", '?"', "a. ", "-", ",:"):
        rule_of(kind, arguments)(unit * (200_000 // len(unit)) + "x")  # quadratic, this takes minutes


@pytest.mark.parametrize(("kind", "arguments", "named"), REFUSED)
def test_arguments_that_are_of_no_use_are_named(kind: str, arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(RulesUnusable) as refused:
        rule_of(kind, arguments)
    assert named in str(refused.value)


def test_null_arguments_are_absent_as_the_hub_has_them() -> None:
    assert rule_of("punctuation:no_comma", {"num_words": None, "keywords": None})("fine")


@pytest.mark.parametrize(
    "detail",
    [
        {},
        {"instruction_id_list": [], "kwargs": []},
        {"instruction_id_list": "punctuation:no_comma", "kwargs": [{}]},
        {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}, {}]},
        {"instruction_id_list": [3], "kwargs": [{}]},
        {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [3]},
    ],
)
def test_an_item_without_its_lists_is_refused(detail: dict[str, Any]) -> None:
    with pytest.raises(RulesUnusable):
        rules_of(detail)
