"""Plain text in the encodings that Korean and English offices use, damaged or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.documents.blocks import Page
from tasks.documents.document_readers import ReadOptions
from tasks.documents.text_reader import decode, heading_level, looks_like_text, open_text

SENTENCE = "사업비는 35,750,000원이다. ㎡ ℃ 「」 ① 入札"


def _pages(folder: Path, data: bytes) -> list[Page]:
    path = folder / "sample.txt"
    path.write_bytes(data)
    return list(open_text(path, password=None, options=ReadOptions()).pages())


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (SENTENCE.encode("utf-8"), "utf-8"),
        (SENTENCE.encode("utf-8-sig"), "utf-8-sig"),
        (SENTENCE.encode("utf-16"), "utf-16"),
        (SENTENCE.encode("utf-32"), "utf-32"),
        (SENTENCE.encode("cp949"), "cp949"),
    ],
    ids=["UTF-8", "with mark", "UTF-16", "UTF-32", "CP949"],
)
def test_encodings_are_told_apart(data: bytes, encoding: str) -> None:
    assert decode(data) == (SENTENCE, encoding, ())


def test_a_lone_surrogate_is_replaced_with_a_note() -> None:
    decoded = decode("가".encode() + b"\xed\xa0\x80" + "나".encode())

    assert decoded.text == "가\ufffd나"
    assert decoded.notes == ("Lone surrogates were replaced by U+FFFD: 1.",)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (SENTENCE.encode("cp949")[:-1], True),
        (SENTENCE.encode()[:-1], True),
        (b"plain\r\nASCII", True),
        (bytes(range(256)) * 4, False),
        (b"\x7fELF" + bytes(100), False),
    ],
    ids=["cut CP949", "cut UTF-8", "ASCII", "noise", "program"],
)
def test_text_is_told_from_binary(head: bytes, expected: bool) -> None:
    assert looks_like_text(head) is expected


def test_form_feeds_part_pages(tmp_path: Path) -> None:
    pages = _pages(tmp_path, b"one\f\fthree\f")

    assert [(page.number, [block.text for block in page.blocks]) for page in pages] == [
        (1, ["one"]),
        (2, []),
        (3, ["three"]),
    ]


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("제1장 사업 개요", 1),
        ("Ⅱ. 제안 요청 내용", 1),
        ("1.2 세부 범위", 3),
        ("가. 일반 사항", 3),
        ("2024년 사업", None),
        ("1. 이 문장은 제목이 아니다.", None),
        ("1. 첫째\n2. 둘째", None),
    ],
)
def test_numbered_headings(line: str, level: int | None) -> None:
    assert heading_level(line) == level


def test_headings_lead_to_their_paragraphs_and_numbered_lines_that_follow_one_another_are_none(tmp_path: Path) -> None:
    page = _pages(tmp_path, "제1장 개요\n\n1. 배경\n\n노후화되었다.\n\n1. one\n\n2. two".encode())[0]

    assert page.blocks[2].place.heading_path == ("제1장 개요", "1. 배경")
    assert [block.kind for block in page.blocks[3:]] == ["paragraph", "heading"]
