"""Keys: equal work has an equal key, other work another one."""

from __future__ import annotations

import pytest

from storage.records import Record, Ref, refs_in
from tasks.keys import content_key, slug


class _Options(Record):
    tables: bool = True


BASE = content_key("parse", 1, {"options": _Options(), "n": 1})


def test_the_order_of_arguments_does_not_matter() -> None:
    assert content_key("parse", 1, {"n": 1, "options": _Options()}) == BASE


@pytest.mark.parametrize(
    "other",
    [
        content_key("chunk", 1, {"options": _Options(), "n": 1}),
        content_key("parse", 2, {"options": _Options(), "n": 1}),
        content_key("parse", 1, {"options": _Options(tables=False), "n": 1}),
        content_key("parse", 1, {"options": _Options(), "n": "1"}),
        content_key("parse", 1, {"options": _Options(), "n": 1}, "run-1"),
    ],
    ids=["name", "version", "inside a record", "type", "run"],
)
def test_whatever_differs_gives_another_key(other: str) -> None:
    assert other != BASE


def test_every_ref_inside_a_value_is_found() -> None:
    class Inner(Record):
        ref: Ref

    refs = [Ref(kind="a", digest=f"{number:064x}", size=1) for number in range(3)]

    assert list(refs_in({"x": [Inner(ref=refs[0]), (refs[1], "text")], "y": refs[2]})) == refs


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Qwen/Qwen3-8B", "qwen-qwen3-8b"),
        ("gpt_5.mini", "gpt-5-mini"),
        ("--a--", "a"),
        ("", "e3b0c442"),  # SHA-256 of nothing
    ],
)
def test_a_key_has_small_letters_digits_and_dashes(name: str, key: str) -> None:
    assert slug(name) == key


def test_other_names_without_such_signs_have_other_keys() -> None:
    assert slug("모델") != slug("다른 모델")
