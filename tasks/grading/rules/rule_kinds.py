"""The kinds of instructions, and what each needs to be told."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

from pydantic import JsonValue

from tasks.grading.grading_records import RulesUnusable
from tasks.grading.rules import rule_formats, rule_keywords, rule_languages, rule_lengths

Rule = Callable[[str], bool]
"""Whether a response follows one instruction."""
Requirement = Callable[[Any], bool]


class Argument(NamedTuple):
    """What an argument has to be, for the machine and for the message."""

    meets: Requirement
    expected: str


class Kind(NamedTuple):
    """A kind of instruction."""

    check: Callable[..., bool]
    arguments: Mapping[str, Argument]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_pattern(value: Any) -> bool:
    if not _is_text(value):
        return False
    try:
        re.compile(value)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _are_patterns(value: Any) -> bool:
    return isinstance(value, list) and bool(cast(list[Any], value)) and all(map(_is_pattern, cast(list[Any], value)))


COUNT = Argument(_is_count, "a whole number from 0")
POSITION = Argument(lambda value: _is_count(value) and value > 0, "a whole number from 1")
RELATION = Argument(lambda value: value in ("less than", "at least"), "`less than` or `at least`")
TEXT = Argument(_is_text, "a text")
LETTER = Argument(lambda value: _is_text(value) and len(value) == 1, "one letter or sign")
PATTERN = Argument(_is_pattern, "a word, or a regular expression")
PATTERNS = Argument(_are_patterns, "a list of words, or of regular expressions")

KINDS: Mapping[str, Kind] = {
    "keywords:existence": Kind(rule_keywords.existence, {"keywords": PATTERNS}),
    "keywords:frequency": Kind(rule_keywords.frequency, {"keyword": PATTERN, "frequency": COUNT, "relation": RELATION}),
    "keywords:forbidden_words": Kind(rule_keywords.forbidden_words, {"forbidden_words": PATTERNS}),
    "keywords:letter_frequency": Kind(
        rule_keywords.letter_frequency, {"letter": LETTER, "let_frequency": COUNT, "let_relation": RELATION}
    ),
    "language:response_language": Kind(rule_languages.response_language, {"language": TEXT}),
    "length_constraints:number_sentences": Kind(
        rule_lengths.number_sentences, {"num_sentences": COUNT, "relation": RELATION}
    ),
    "length_constraints:number_paragraphs": Kind(rule_lengths.number_paragraphs, {"num_paragraphs": COUNT}),
    "length_constraints:number_words": Kind(rule_lengths.number_words, {"num_words": COUNT, "relation": RELATION}),
    "length_constraints:nth_paragraph_first_word": Kind(
        rule_lengths.nth_paragraph_first_word, {"num_paragraphs": COUNT, "nth_paragraph": POSITION, "first_word": TEXT}
    ),
    "detectable_content:number_placeholders": Kind(rule_formats.number_placeholders, {"num_placeholders": COUNT}),
    "detectable_content:postscript": Kind(rule_formats.postscript, {"postscript_marker": PATTERN}),
    "detectable_format:number_bullet_lists": Kind(rule_formats.number_bullet_lists, {"num_bullets": COUNT}),
    "detectable_format:constrained_response": Kind(rule_formats.constrained_response, {}),
    "detectable_format:number_highlighted_sections": Kind(
        rule_formats.number_highlighted_sections, {"num_highlights": COUNT}
    ),
    "detectable_format:multiple_sections": Kind(
        rule_formats.multiple_sections, {"section_spliter": PATTERN, "num_sections": COUNT}
    ),
    "detectable_format:json_format": Kind(rule_formats.json_format, {}),
    "detectable_format:title": Kind(rule_formats.title, {}),
    "combination:two_responses": Kind(rule_formats.two_responses, {}),
    "combination:repeat_prompt": Kind(rule_formats.repeat_prompt, {"prompt_to_repeat": TEXT}),
    "startend:end_checker": Kind(rule_formats.end_checker, {"end_phrase": TEXT}),
    "startend:quotation": Kind(rule_formats.quotation, {}),
    "change_case:capital_word_frequency": Kind(
        rule_languages.capital_word_frequency, {"capital_frequency": COUNT, "capital_relation": RELATION}
    ),
    "change_case:english_capital": Kind(rule_languages.english_capital, {}),
    "change_case:english_lowercase": Kind(rule_languages.english_lowercase, {}),
    "punctuation:no_comma": Kind(rule_languages.no_comma, {}),
}


def rule_of(kind: str, arguments: Mapping[str, JsonValue]) -> Rule:
    """The check of one instruction; arguments that are null are as good as absent, as the hub's data has them.

    Raises RulesUnusable: the published grader draws a missing argument at random, and so grades something else.
    """
    if kind not in KINDS:
        raise RulesUnusable(f"no instruction kind {kind!r}; there are {', '.join(sorted(KINDS))}")
    given = {name: value for name, value in arguments.items() if value is not None}
    expected = KINDS[kind].arguments
    for name in given.keys() - expected.keys():
        raise RulesUnusable(f"{kind} takes no argument `{name}`; it takes {', '.join(expected) or 'none'}")
    for name, argument in expected.items():
        if name not in given:
            raise RulesUnusable(f"{kind} needs `{name}`, {argument.expected}")
        if not argument.meets(given[name]):
            raise RulesUnusable(f"{kind} needs `{name}` to be {argument.expected}, not {given[name]!r:.80}")
    _check_position(kind, given)
    return partial(KINDS[kind].check, **given)


def rules_of(detail: Mapping[str, JsonValue]) -> list[tuple[str, Rule]]:
    """Kind and check of each instruction of an item: `instruction_id_list` and, beside it, `kwargs`.

    Raises RulesUnusable.
    """
    kinds, arguments = detail.get("instruction_id_list"), detail.get("kwargs")
    if not isinstance(kinds, list) or not kinds or not isinstance(arguments, list):
        raise RulesUnusable("an item needs `instruction_id_list` and `kwargs`, two lists")
    if len(kinds) != len(arguments):
        raise RulesUnusable(f"{len(kinds)} instructions but {len(arguments)} sets of arguments; each needs its own")
    rules = list[tuple[str, Rule]]()
    for kind, given in zip(kinds, arguments, strict=True):
        if not isinstance(kind, str) or not isinstance(given, dict | None):
            raise RulesUnusable("`instruction_id_list` holds names, and `kwargs` an object for each")
        rules.append((kind, rule_of(kind, given or {})))
    return rules


def _check_position(kind: str, given: Mapping[str, Any]) -> None:
    if "nth_paragraph" in given and given["nth_paragraph"] > given["num_paragraphs"]:
        raise RulesUnusable(
            f"{kind} asks for paragraph {given['nth_paragraph']} of {given['num_paragraphs']}; "
            "`nth_paragraph` is at most `num_paragraphs`"
        )
