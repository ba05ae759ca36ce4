from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.language.sentences import language_of, sentences_of, split_sentences

WRAPPED = "a line of a paragraph that is wrapped right here"


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("제2조. 목적은 다음과 같다. 예산은 3.5억 원이다.", ["제2조. 목적은 다음과 같다.", "예산은 3.5억 원이다."]),
        ("기한은 2024. 7. 10. 17:00까지이다. 늦지 말 것.", ["기한은 2024. 7. 10. 17:00까지이다.", "늦지 말 것."]),
        ("가. 개요는 이렇다. 다음이다.", ["가. 개요는 이렇다.", "다음이다."]),
        ("Acme Inc. grew 3.5% in 2023. See No. 5.", ["Acme Inc. grew 3.5% in 2023.", "See No. 5."]),
        ("The U.S. unit of J. Smith fell. It rose!", ["The U.S. unit of J. Smith fell.", "It rose!"]),
        ("By Prof.Dr. Ada Ek, Ph.D. (cf. Rev. Ott). End.", ["By Prof.Dr. Ada Ek, Ph.D. (cf. Rev. Ott).", "End."]),
        ("See, e.g. fig. 5. He said no. She left.", ["See, e.g. fig. 5.", "He said no.", "She left."]),
        ("It was 5. It is 6.", ["It was 5.", "It is 6."]),
        ("예산은 5원이다. [1][2] 기간은 6개월이다 [3].", ["예산은 5원이다. [1][2]", "기간은 6개월이다 [3]."]),
        ("One.[1] Two 【2】.\n[3]", ["One.[1]", "Two 【2】.\n[3]"]),
        ("Euros.¹⁵ It was.¹,² 늘었다.¹⁾ 끝", ["Euros.¹⁵", "It was.¹,²", "늘었다.¹⁾", "끝"]),
        ("○ 첫째\n○ 둘째", ["○ 첫째", "○ 둘째"]),
        (f"{WRAPPED} and\ngoes on. Then ends", [f"{WRAPPED} and\ngoes on.", "Then ends"]),
        ("日本語です。次の文です。", ["日本語です。", "次の文です。"]),
        ("", []),
    ],
    ids=[
        "article", "date", "list item", "short forms", "initials", "titles", "small letters", "digit", "marks",
        "loose mark", "raised", "bullets", "wrapped", "japanese", "empty",
    ],
)  # fmt: skip
def test_a_text_is_cut_where_its_sentences_end(text: str, sentences: list[str]) -> None:
    assert sentences_of(text) == sentences


@given(st.text(alphabet="가다. \n[1]Ab2!\"'。", max_size=60))
def test_nothing_but_space_is_lost_between_sentences(text: str) -> None:
    spans = split_sentences(text)
    kept = "".join(text[start:end] for start, end in spans)
    assert "".join(kept.split()) == "".join(text.split())
    assert all(one.end <= other.start for one, other in pairwise(spans))


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("사업 예산은?", "ko"),
        ("RFP 24-017 Account-Based Fare Collection System의 예산은?", "ko"),
        ("35,750,000원", "ko"),
        ("35,750,000", "en"),
        ("What is the budget of 가람시 for the system?", "en"),
        ("The issuer is 가람시 and the project is a traffic control system", "en"),
        ("Wie hoch ist das Budget?", "en"),
        ("予算はいくらですか", "en"),
        ("", "en"),
    ],
)
def test_a_text_is_korean_if_it_is_said_in_korean(text: str, language: str) -> None:
    assert language_of(text) == language
