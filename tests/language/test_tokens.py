from __future__ import annotations

import subprocess
import sys
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tasks.language import tokens as module
from tasks.language.tokens import BIGRAM, WrongTokenizer, installed_tokenizer, syllable_pairs, tokenize
from tasks.rag.indexing.chunks import Chunk, tokenize_chunks

ROOT = Path(__file__).parents[3]


def words(text: str, tokenizer: str = BIGRAM) -> list[str]:
    return tokenize([text], tokenizer=tokenizer)[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Companies indexed the Company's reports", ["compani", "index", "compani", "report"]),
        ("35,750,000", ["35750000"]),
        ("₩35,750,000", ["35750000", "₩35750000"]),
        ("$ 1,234.50 net", ["1234.50", "$1234.50", "net"]),
        ("3.5%", ["3.5", "3.5%"]),
        ("100㎡", ["100", "100㎡"]),
        ("SFR-001", ["sfr-001", "sfr", "001"]),
        ("16GB", ["16gb", "16", "gb"]),
        ("year-end", ["year", "end"]),
        ("(1,234)", ["1234"]),
        ("2024-03-05", ["2024-03-05", "2024", "03", "05", "2024-03-05"]),
        ("May 5, 2023", ["5", "2023", "2023-05-05"]),
        ("sold by¹ Kim¹,² ^(주1)", ["sold", "kim"]),
        ("100 m² of CO₂", ["100", "100㎡", "co2", "co", "2"]),
        ("café ΑΘΗΝΑ", ["café", "αθηνα"]),
        ("大韓民國", ["大韓", "韓民", "民國"]),
        ("the of and", []),
        ("", []),
    ],
)
def test_the_words_of_a_text(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize("date", ["2024. 3. 15.", "2024년 3월 15일", "2024-03-15", "2024/3/15", "March 15, 2024"])
def test_every_spelling_of_a_date_gives_the_same_word(date: str) -> None:
    assert "2024-03-15" in words(date)


@pytest.mark.parametrize("text", ["2024-13-45", "1.2.3"])
def test_what_is_no_date_gives_none(text: str) -> None:
    assert not any(word.count("-") == 2 and len(word) == 10 for word in words(text.replace("13-45", "13")))


@pytest.mark.parametrize(
    ("amount", "digits"),
    [
        ("3,575만 원", "35750000"),
        ("1억 2천만원", "120000000"),
        ("1억2,000만 원", "120000000"),
        ("1.1억", "110000000"),
        ("2천5백만 원", "25000000"),
        ("3조 5,000억", "3500000000000"),
    ],
)
def test_amounts_in_myriads_are_also_found_by_their_digits(amount: str, digits: str) -> None:
    assert digits in words(amount)
    assert digits in words(f"{int(digits):,}원")


def test_an_article_of_a_law_is_no_amount() -> None:
    assert "2000000000000" not in words("제2조")


def test_korean_pairs_stay_within_a_run() -> None:
    assert words("사업금액 원") == ["사업", "업금", "금액", "원"]


def test_marked_pairs_equal_no_word() -> None:
    assert syllable_pairs("사업금액 2억원 bid 원") == ["사_업", "업_금", "금_액", "억_원"]
    assert syllable_pairs(unicodedata.normalize("NFD", "사업")) == ["사_업"]


def test_decomposed_text_gives_the_words_of_composed_text() -> None:
    assert words(unicodedata.normalize("NFD", "사업 café")) == words("사업 café")


def test_chunks_are_found_by_heading_text_and_sentences() -> None:
    chunk = Chunk(
        id="x", document="x", page=1, bbox=None, kind="table", text="41 | 42", heading_path=("Results",),
        sentences=("Revenue — 2022: 41",),
    )  # fmt: skip
    (found,) = tokenize_chunks([chunk], tokenizer=BIGRAM)
    assert {"result", "41", "42", "revenu", "2022"} <= set(found)


@pytest.mark.skipif(installed_tokenizer() == BIGRAM, reason="needs kiwipiepy")
def test_beside_the_morphemes_of_a_chunk_stand_its_pairs() -> None:
    chunk = Chunk(id="x", document="x", page=1, bbox=None, kind="text", text="예산이 늘었다")
    (found,) = tokenize_chunks([chunk], tokenizer=installed_tokenizer())
    assert {"예산", "예_산", "산_이"} <= set(found)
    assert "예_산" not in tokenize_chunks([chunk], tokenizer=BIGRAM)[0]


def test_a_tokenizer_that_is_not_here_is_refused_with_the_remedy() -> None:
    with pytest.raises(WrongTokenizer, match=r"kiwipiepy==0\.1\.0"):
        words("사업", "kiwi-0.1.0")


def test_a_question_without_hangul_needs_no_kiwi() -> None:
    assert words("Bid price", "kiwi-0.1.0") == ["bid", "price"]


def test_without_kiwi_the_installed_tokenizer_is_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: str) -> str:
        raise module.metadata.PackageNotFoundError

    monkeypatch.setattr(module.metadata, "version", absent)
    assert installed_tokenizer.__wrapped__() == BIGRAM


def test_english_never_loads_kiwi() -> None:
    code = (
        "import sys; from tasks.language.tokens import *;"
        "tokenize(['bid price 3%', '大'], tokenizer=installed_tokenizer()); print('kiwipiepy' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True) == "False\n"


class TestKiwi:
    """One load, about two seconds."""

    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        pytest.importorskip("kiwipiepy")

    def test_particles_and_endings_fall_away(self) -> None:
        assert words("제안서를 제출하였습니다", installed_tokenizer()) == ["제안서", "제출"]

    def test_a_compound_is_found_whole_whether_kiwi_splits_it_or_not(self) -> None:
        alone, inside = (words(text, installed_tokenizer()) for text in ("요구사항", "요구사항을 충족하여야 한다"))
        assert alone == ["요구사항"]
        assert inside == ["요구", "사항", "요구사항", "충족"]

    def test_numbers_keep_their_counters(self) -> None:
        assert {"12", "12개월"} <= set(words("계약기간은 12개월이다", installed_tokenizer()))

    def test_words_do_not_depend_on_the_texts_beside(self) -> None:
        texts = ["사업 금액은 얼마인가", "Bid price", "", "2세대 전자조달시스템 구축", "입찰 참여 마감일"] * 5
        together = tokenize(texts, tokenizer=installed_tokenizer())
        assert together == [words(text, installed_tokenizer()) for text in texts]


STEMS = ["operations", "connectedly", "generalizations", "oscillators", "hopefulness", "triplicate", "formality"]


def test_threads_that_tokenise_at_once_do_not_mix_their_words() -> None:
    texts = [" ".join(f"{chr(97 + number % 26)}{stem}" for stem in STEMS) for number in range(60)]
    alone = tokenize(texts, tokenizer=BIGRAM)

    module._stem.cache_clear()
    with ThreadPoolExecutor(max_workers=8) as pool:
        together = list(pool.map(lambda text: tokenize([text], tokenizer=BIGRAM)[0], texts * 5))

    assert together == alone * 5
