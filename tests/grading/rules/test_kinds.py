"""The 25 kinds, one table: what follows an instruction and what just does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.grading.grading_records import RulesUnusable
from tasks.grading.rules.rule_checks import KINDS, arguments_of
from tasks.grading.rules.rule_grading import rule_of, rules_of

AT_LEAST_2 = {"relation": "at least"}
FIRST = {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Sky"}
GERMAN = "Der Himmel ist heute grau, und es wird bald regnen."
ENGLISH = "The sky is grey today and it is going to rain soon."

CASES: list[tuple[str, dict[str, Any], str, bool]] = [
    # keywords are patterns, found in any case and inside longer words
    ("keywords:existence", {"keywords": ["sky", "sea"]}, "Seaside and SKYLINE", True),
    ("keywords:existence", {"keywords": ["sky", "sea"]}, "only the sky", False),
    ("keywords:existence", {"keywords": ["s.y"]}, "shy", True),
    ("keywords:frequency", {"keyword": "the", "frequency": 2, "relation": "at least"}, "The other", True),
    ("keywords:frequency", {"keyword": " the ", "frequency": 2, "relation": "at least"}, "The one", False),
    ("keywords:frequency", {"keyword": "the", "frequency": 2, "relation": "less than"}, "the", True),
    ("keywords:frequency", {"keyword": "the", "frequency": 2, "relation": "less than"}, "the the", False),
    ("keywords:frequency", {"keyword": "the", "frequency": 0, "relation": "at least"}, "none", True),
    ("keywords:frequency", {"keyword": "the", "frequency": 0, "relation": "less than"}, "none", False),
    ("keywords:forbidden_words", {"forbidden_words": ["sad"]}, "Sadness", True),
    ("keywords:forbidden_words", {"forbidden_words": ["sad"]}, "so SAD!", False),
    ("keywords:forbidden_words", {"forbidden_words": ["not me"]}, "why not me?", False),
    ("keywords:letter_frequency", {"letter": "A", "let_frequency": 3, "let_relation": "at least"}, "Anna a", True),
    ("keywords:letter_frequency", {"letter": "a", "let_frequency": 3, "let_relation": "at least"}, "Anna", False),
    ("keywords:letter_frequency", {"letter": "a", "let_frequency": 2, "let_relation": "less than"}, "Anna", False),
    ("keywords:letter_frequency", {"letter": "#", "let_frequency": 2, "let_relation": "at least"}, "## Go", True),
    # languages
    ("language:response_language", {"language": "de"}, GERMAN, True),
    ("language:response_language", {"language": "de"}, ENGLISH, False),
    ("language:response_language", {"language": "de"}, "12 + 30 = 42", True),  # nothing to tell a language by
    ("language:response_language", {"language": "ko"}, "오늘은 하늘이 흐리고 곧 비가 올 것입니다.", True),
    ("change_case:english_capital", {}, ENGLISH.upper(), True),
    ("change_case:english_capital", {}, ENGLISH.upper() + " ok", False),
    ("change_case:english_capital", {}, GERMAN.upper(), False),
    ("change_case:english_capital", {}, "12 + 30", False),
    ("change_case:english_lowercase", {}, ENGLISH.lower(), True),
    ("change_case:english_lowercase", {}, ENGLISH, False),
    ("change_case:english_lowercase", {}, GERMAN.lower(), False),
    ("change_case:capital_word_frequency", {"capital_frequency": 2, "capital_relation": "at least"}, "I AM", True),
    ("change_case:capital_word_frequency", {"capital_frequency": 2, "capital_relation": "at least"}, "I am", False),
    ("change_case:capital_word_frequency", {"capital_frequency": 2, "capital_relation": "less than"}, "DON'T", False),
    ("punctuation:no_comma", {}, "one; two、three", True),
    ("punctuation:no_comma", {}, "1,000", False),
    # lengths
    ("length_constraints:number_sentences", {"num_sentences": 2} | AT_LEAST_2, "It rains. It pours.", True),
    ("length_constraints:number_sentences", {"num_sentences": 2} | AT_LEAST_2, "It rains, it pours.", False),
    ("length_constraints:number_sentences", {"num_sentences": 3, "relation": "less than"}, "1. It rains.", True),
    ("length_constraints:number_sentences", {"num_sentences": 2, "relation": "less than"}, "1. It rains.", False),
    ("length_constraints:number_words", {"num_words": 3} | AT_LEAST_2, "don't go", True),
    ("length_constraints:number_words", {"num_words": 3} | AT_LEAST_2, "a_b c-", False),
    ("length_constraints:number_words", {"num_words": 3, "relation": "less than"}, "one two", True),
    ("length_constraints:number_words", {"num_words": 3, "relation": "less than"}, "one two three", False),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "one\n***\ntwo", True),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "***one***two***", True),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "one\n\ntwo", False),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "one\n***\n***\ntwo", False),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "***one*** and two", True),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 1}, "one", True),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 0}, "***", True),
    ("length_constraints:nth_paragraph_first_word", FIRST, "one\n\nsky, high", True),
    ("length_constraints:nth_paragraph_first_word", FIRST, 'one\n\n\'"SKY" high', True),
    ("length_constraints:nth_paragraph_first_word", FIRST, "one\n\nsky's the limit", True),
    ("length_constraints:nth_paragraph_first_word", FIRST, "one\n\n*sky* high", False),
    ("length_constraints:nth_paragraph_first_word", FIRST, "one\n\nskyline", False),
    ("length_constraints:nth_paragraph_first_word", FIRST, "one\n\nsky\n\nthree", False),
    ("length_constraints:nth_paragraph_first_word", FIRST, "one\nsky", False),
    ("length_constraints:nth_paragraph_first_word", FIRST, "one\n\n\nsky", True),
    ("length_constraints:nth_paragraph_first_word", FIRST, "\n\none\n\nsky", False),  # the empty one holds its place
    ("length_constraints:nth_paragraph_first_word", FIRST, "one\n\n\n\nsky", False),
    # contents and marks
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[a] and [b c]", True),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[[a] b]", False),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[] []", True),
    ("detectable_content:number_placeholders", {"num_placeholders": 1}, "[a\nb]", False),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "Bye\n\np. s. more", True),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "P.S without the last period", False),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "the P.S. may stand anywhere", True),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, "P. P. S: more", True),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, "P.S. more", False),
    ("detectable_content:postscript", {"postscript_marker": "NB"}, "Bye\nnb: more", True),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n  - b", True),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n* b\n* c", False),
    ("detectable_format:number_bullet_lists", {"num_bullets": 1}, "**bold** first\n* a", True),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n---", True),  # a rule counts
    ("detectable_format:number_bullet_lists", {"num_bullets": 1}, "*\n* a", True),  # takes the next line with it
    ("detectable_format:number_bullet_lists", {"num_bullets": 1}, "\n\n\u00a0* a", True),
    ("detectable_format:number_bullet_lists", {"num_bullets": 0}, "1. a\n• b", True),
    ("detectable_format:constrained_response", {}, "Well. My answer is maybe. So", True),
    ("detectable_format:constrained_response", {}, "my answer is maybe.", False),
    ("detectable_format:constrained_response", {}, "My answer is no", False),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*a* and *b*", True),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*a* and *\nb*", False),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 1}, "**a**", True),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "**a**", False),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 1}, "** ** * *", False),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "***a***", True),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "Section", "num_sections": 2},
        "Section 1\nSection2",
        True,
    ),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "Section", "num_sections": 2},
        "SECTION 1 Section 2",
        False,
    ),
    ("detectable_format:multiple_sections", {"section_spliter": "Section", "num_sections": 1}, "**Section**: 1", False),
    ("detectable_format:json_format", {}, '{"a": [1, NaN]}', True),
    ("detectable_format:json_format", {}, '```json\n{"a": 1}\n```', True),
    ("detectable_format:json_format", {}, '```\n"text"```', True),
    ("detectable_format:json_format", {}, 'Here:\n```json\n{"a": 1}\n```', False),
    ("detectable_format:json_format", {}, '{"a": 1} {"b": 2}', False),
    ("detectable_format:json_format", {}, "{'a': 1}", False),
    ("detectable_format:json_format", {}, "[" * 100_000, False),
    ("detectable_format:json_format", {}, "9" * 100_000, False),
    ("detectable_format:title", {}, "x <<A title>> y", True),
    ("detectable_format:title", {}, "<<<>>>", False),
    ("detectable_format:title", {}, "<< >>", False),
    ("detectable_format:title", {}, "<<two\nlines>>", False),
    ("detectable_format:title", {}, "<a title>", False),
    ("detectable_format:title", {}, ">><<a", False),
    # combinations, starts and ends
    ("combination:two_responses", {}, "one\n******\ntwo", True),
    ("combination:two_responses", {}, "******one******two******", True),
    ("combination:two_responses", {}, "one\n******\n one ", False),
    ("combination:two_responses", {}, "one\n******\n******\ntwo", False),
    ("combination:two_responses", {}, "one\n*****\ntwo", False),
    ("combination:two_responses", {}, "a******b******c", False),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Why is it? "}, " why IS it? Because.", True),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Why is it?"}, "Sure! Why is it?", False),
    ("startend:end_checker", {"end_phrase": "Peace!"}, 'So be it. PEACE!" \n', True),
    ("startend:end_checker", {"end_phrase": "Peace!"}, "Peace! Bye", False),
    ("startend:end_checker", {"end_phrase": " Peace! "}, "peace!", True),
    ("startend:quotation", {}, ' "all of it"\n', True),
    ("startend:quotation", {}, "“all of it”", False),
    ("startend:quotation", {}, '"', False),
    ("startend:quotation", {}, '"all" of it', False),
]


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
@pytest.mark.parametrize(
    "unit", ["a", " ", "\n", ".", "!", "[", "<<", "*", "\n*", "\n-", "{", "p.", '?"', "a. ", "-", ",:"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_long_run_of_anything_is_read_once(kind: str, unit: str) -> None:
    arguments = {name: NEVER.get(name, 10**9) for name in arguments_of(KINDS[kind])}
    rule_of(kind, arguments)(unit * (200_000 // len(unit)) + "x")  # quadratic, this takes minutes


@pytest.mark.parametrize(
    ("kind", "arguments", "named"),
    [
        ("keywords:rhyme", {}, "no instruction kind 'keywords:rhyme'"),
        ("punctuation:no_comma", {"num_words": 3}, "takes no argument `num_words`; it takes none"),
        ("keywords:existence", {}, "needs `keywords`"),
        ("keywords:existence", {"keywords": None}, "needs `keywords`"),
        ("keywords:existence", {"keywords": []}, "`keywords` to be a list of words"),
        ("keywords:existence", {"keywords": ["f(x"]}, "`keywords` to be a list of words"),
        ("keywords:frequency", {"keyword": "a", "frequency": 1, "relation": "at most"}, "`less than` or `at least`"),
        ("keywords:frequency", {"keyword": "a", "frequency": -1, "relation": "at least"}, "a whole number from 0"),
        ("keywords:frequency", {"keyword": "a", "frequency": True, "relation": "at least"}, "a whole number from 0"),
        ("keywords:letter_frequency", {"letter": "ab", "let_frequency": 1, "let_relation": "at least"}, "one letter"),
        ("startend:end_checker", {"end_phrase": " "}, "`end_phrase` to be a text"),
        (
            "length_constraints:nth_paragraph_first_word",
            {"num_paragraphs": 2, "nth_paragraph": 3, "first_word": "a"},
            "paragraph 3 of 2",
        ),
    ],
)
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
