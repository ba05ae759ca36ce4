"""Marks that a response must carry: titles, lists, sections, quotes, JSON, fixed phrases.

The published patterns go back and forth over some inputs in quadratic time; where they do, the same matches are found
in one pass here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tasks.grading.rules.rule_keywords import compares

ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
# `[^*]` also takes a line break: a lone asterisk and the line under it are one bullet
STAR_BULLET = re.compile(r"^[^\S\n]*+\*[^*].*$", re.M)
DASH_BULLET = re.compile(r"^[^\S\n]*+-.*$", re.M)
HIGHLIGHT = re.compile(r"\*([^\n*]*)\*")
DOUBLE_HIGHLIGHT = re.compile(r"\*\*([^\n*]*)\*\*")
POSTSCRIPTS = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
FENCES = ("```json", "```Json", "```JSON", "```")
TWO_RESPONSES = "******"


def number_placeholders(response: str, *, num_placeholders: int) -> bool:
    """It has at least that many `[placeholders]`."""
    return compares(_placeholders(response), "at least", num_placeholders)


def postscript(response: str, *, postscript_marker: str) -> bool:
    """The marker is somewhere in it, in any case."""
    marker = postscript_marker.strip()
    return re.search(POSTSCRIPTS.get(marker, marker.lower()), response.lower()) is not None


def number_bullet_lists(response: str, *, num_bullets: int) -> bool:
    """It has exactly that many lines that start with `*` or `-`, a rule `---` included."""
    return sum(1 for bullet in (STAR_BULLET, DASH_BULLET) for _ in bullet.finditer(response)) == num_bullets


def constrained_response(response: str) -> bool:
    """One of the three allowed answers is in it, word for word."""
    return any(answer in response for answer in ANSWERS)


def number_highlighted_sections(response: str, *, num_highlights: int) -> bool:
    """It has at least that many `*highlights*`; `**double**` counts once, `***triple***` twice."""
    return compares(_highlights(response), "at least", num_highlights)


def multiple_sections(response: str, *, section_spliter: str, num_sections: int) -> bool:
    """It has at least that many headings `Section 1`."""
    return compares(re.finditer(rf"{section_spliter.strip()}\s?\d+", response), "at least", num_sections)


def json_format(response: str) -> bool:
    """All of it is JSON, or one fenced block of JSON."""
    body = response.strip()
    for fence in FENCES:
        body = body.removeprefix(fence)
    try:
        json.loads(body.removesuffix("```").strip())
    except (ValueError, RecursionError):  # the latter by a million brackets
        return False
    return True


def title(response: str) -> bool:
    """It has a `<<title>>` on one line, with something between the brackets."""
    return any(found.lstrip("<").rstrip(">").strip() for found in _titles(response))


def two_responses(response: str) -> bool:
    """It is two different texts with `******` between them."""
    parts = [part.strip() for part in response.split(TWO_RESPONSES)]
    filled = [part for part in parts if part]
    return all(parts[1:-1]) and len(filled) == 2 and filled[0] != filled[1]


def repeat_prompt(response: str, *, prompt_to_repeat: str) -> bool:
    """It starts with the request, in any case."""
    return response.strip().lower().startswith(prompt_to_repeat.strip().lower())


def end_checker(response: str, *, end_phrase: str) -> bool:
    """Its last words are the phrase, in any case; quotes around the whole do not matter."""
    return response.strip().strip('"').lower().endswith(end_phrase.strip().lower())


def quotation(response: str) -> bool:
    """Straight double quotes stand around all of it."""
    text = response.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


def _placeholders(response: str) -> Iterator[str]:
    """`[…]` on one line, from an opening bracket to the next closing one."""
    for line in response.split("\n"):
        start = line.find("[")
        while start >= 0 and (end := line.find("]", start)) >= 0:
            yield line[start : end + 1]
            start = line.find("[", end)


def _highlights(response: str) -> Iterator[str]:
    for pattern in (HIGHLIGHT, DOUBLE_HIGHLIGHT):
        for found in pattern.finditer(response):
            if found[1].strip():
                yield found[1]


def _titles(response: str) -> Iterator[str]:
    """From the first `<<` of a line to its last `>>`, with at least one character between."""
    for line in response.split("\n"):
        start, end = line.find("<<"), line.rfind(">>")
        if 0 <= start <= end - 3:
            yield line[start : end + 2]
