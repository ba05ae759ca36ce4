from __future__ import annotations

import hashlib
import io
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
import pytest
from numpy.typing import NDArray

from models.model_errors import ModelError, RequestRefused, TransientModelError
from models.protocols import ChatRequest, ChatResponse, Image
from models.scripted import Rule, ScriptedChat
from storage.records import Ref
from tasks.budget import Budget, Spending
from tasks.calls import CallSettings, Limits
from tasks.documents.blocks import ImageCandidate
from tasks.rag.indexing.figures import (
    FigureRecord,
    FigureSettings,
    describe,
    figure_request,
    is_informative,
    mark_repeated,
    measure,
    plan_descriptions,
    record_figure,
)
from tests.kept_responses import Kept

Picture = PIL.Image.Image


def encoded(picture: Picture) -> bytes:
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def grey(levels: NDArray[Any]) -> Picture:
    return PIL.Image.fromarray(levels.astype(np.uint8)).convert("RGB")


def chart(*bars: int, amount: str = "1,283") -> Picture:
    picture = PIL.Image.new("RGB", (400, 300), "white")
    draw = PIL.ImageDraw.Draw(picture)
    draw.line((40, 20, 40, 260, 380, 260), fill="black", width=2)
    for place, height in enumerate(bars):
        draw.rectangle((60 + 60 * place, 260 - height, 100 + 60 * place, 260), fill=(20, 90, 160))
    draw.text((200, 30), amount, fill="black", font=PIL.ImageFont.load_default(12))
    return picture


def recompressed(picture: Picture, *, quality: int, scale: float = 1.0) -> Picture:
    file = io.BytesIO()
    smaller = picture.resize((round(picture.width * scale), round(picture.height * scale)))
    smaller.save(file, "JPEG", quality=quality)
    return PIL.Image.open(file).convert("RGB")


def candidate(picture: Picture, *, page: int | None = 3, n: int = 2, size: tuple[int, int] | None = None):
    width, height = size or picture.size
    return ImageCandidate(
        page=page, bbox=(1, 2, 3, 4), n=n, source="raster", png=encoded(picture), width=width, height=height
    )


class Store(dict[str, bytes]):
    """Pictures by digest."""

    def add(self, png: bytes) -> Ref:
        ref = Ref(kind="figure", digest=hashlib.sha256(png).hexdigest(), size=len(png))
        self[ref.digest] = png
        return ref

    def load(self, ref: Ref) -> bytes:
        return self[ref.digest]


@pytest.fixture
def store() -> Store:
    return Store()


def record(
    store: Store, picture: Picture, *, document: str = "a" * 64, page: int | None = 3, n: int = 2
) -> FigureRecord:
    subject = candidate(picture, page=page, n=n)
    return record_figure(subject, document=document, image=store.add(subject.png), settings=FigureSettings())


CHECKS = np.kron(np.indices((20, 20)).sum(0) % 2, np.ones((10, 10))) * 255  # 200 × 200, 10-pixel squares


# Filters


def test_the_measures_of_a_checkerboard_are_those_worked_by_hand():
    measures = measure(candidate(grey(CHECKS)))
    assert measures.pixels == 200 * 200
    assert measures.variance == pytest.approx(127.5**2)
    assert measures.nonwhite_ratio == 0.5


@pytest.mark.parametrize(
    ("picture", "rule"),
    [
        pytest.param(chart(90, 150, 60).resize((120, 100)), "qwen3_vl_min_image_pixels: 12000 is below", id="icon"),
        pytest.param(grey(np.full((200, 200), 255)), "qwen3_vl_min_nonwhite_ratio: 0 is below 0.02", id="blank"),
        pytest.param(grey(np.full((200, 200), 90)), "qwen3_vl_min_variance: 0 is below 15", id="one colour"),
        pytest.param(
            grey(np.linspace(60, 200, 200)[None, :].repeat(200, 0)), "qwen3_vl_min_edge_energy: 0.004", id="gradient"
        ),
    ],
)
def test_a_picture_without_information_is_dropped_with_rule_and_value(store: Store, picture: Picture, rule: str):
    dropped = record(store, picture)
    assert dropped.status == "dropped"
    assert dropped.reason is not None
    assert dropped.reason.startswith(rule)


# Duplicates


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(chart(90, 150, 60), id="the same pixels"),
        pytest.param(recompressed(chart(90, 150, 60), quality=75), id="as JPEG"),
        pytest.param(recompressed(chart(90, 150, 60), quality=85, scale=0.6), id="smaller, as JPEG"),
        pytest.param(chart(90, 150, 60).resize((300, 225)), id="smaller"),
    ],
)
def test_the_same_picture_is_one_figure(store: Store, other: Picture):
    records = [record(store, chart(90, 150, 60)), record(store, other, document="b" * 64)]
    marked = mark_repeated(records, load=store.load, settings=FigureSettings())
    assert [item.status for item in marked] == ["kept", "duplicate"]
    assert marked[1].reason == "looks like document aaaaaaaaaaaa [PAGE 3 IMAGE 2]"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(chart(90, 150, 60, amount="1,288"), id="another digit"),
        pytest.param(chart(90, 154, 60), id="another bar"),
        pytest.param(chart(90, 150, 60).transpose(PIL.Image.Transpose.ROTATE_90), id="turned"),
        pytest.param(chart(90, 150, 60).resize((400, 250)), id="squeezed"),
    ],
)
def test_a_chart_with_another_number_is_another_figure(store: Store, other: Picture):
    records = [record(store, chart(90, 150, 60)), record(store, other, document="b" * 64)]
    marked = mark_repeated(records, load=store.load, settings=FigureSettings())
    assert [item.status for item in marked] == ["kept", "kept"]


# Descriptions


class Failing:
    id = "failing:1"

    def __init__(self, error: ModelError) -> None:
        self.error = error

    def complete(self, request: ChatRequest, *, on_text: object = None) -> ChatResponse:
        raise self.error


def described(
    subject: FigureRecord, store: Store, chat: Any, *, budget: Budget | None = None, **settings: object
) -> FigureRecord:
    assert subject.image is not None
    return describe(
        subject,
        store.load(subject.image),
        chat=chat,
        responses=Kept(),
        limits=Limits(CallSettings(tries=1), rng=random.Random(0)),
        settings=FigureSettings.model_validate(settings),
        budget=budget,
    )


@pytest.fixture
def kept(store: Store) -> FigureRecord:
    return record(store, chart(90, 150, 60))


def test_a_description_is_labelled_with_page_and_number(kept: FigureRecord, store: Store):
    done = described(kept, store, ScriptedChat([Rule(answer="| Year | 억원 |\n|---|---|\n| 2024 | 35 |")]))
    assert done.status == "described"
    assert done.text == "[PAGE 3 IMAGE 2]\n| Year | 억원 |\n|---|---|\n| 2024 | 35 |"
    assert done.response_key is not None


def test_the_model_is_asked_at_temperature_zero_for_512_tokens(store: Store, kept: FigureRecord):
    request = figure_request(b"png", FigureSettings())
    assert (request.temperature, request.max_tokens) == (0.0, 512)
    assert request.messages[0].content[1] == Image(png=b"png")


def test_without_a_model_figures_are_skipped_and_say_so(kept: FigureRecord, store: Store):
    done = described(kept, store, None)
    assert (done.status, done.reason) == ("skipped", "no vision model is configured; name one with `--vlm`")


def test_the_budget_skips_the_rest(kept: FigureRecord, store: Store):
    budget, other = Budget(Spending(max_calls=1)), record(store, chart(30, 40, 50), n=3)
    chat = ScriptedChat()
    done = [described(item, store, chat, budget=budget) for item in (kept, other)]
    assert [item.status for item in done] == ["described", "skipped"]
    assert (done[1].reason, chat.calls) == ("the 1 model calls that were allowed are used up", 1)


def test_an_answer_without_information_gives_no_text(kept: FigureRecord, store: Store):
    done = described(kept, store, ScriptedChat([Rule(answer="NO DATA")]))
    assert (done.status, done.text, done.reason) == ("uninformative", None, "the model answered 'NO DATA'")


@pytest.mark.parametrize(
    ("error", "retryable"),
    [(TransientModelError("away"), True), (RequestRefused("too large"), False)],
    ids=["transient", "refused"],
)
def test_a_failure_is_a_record(kept: FigureRecord, store: Store, error: ModelError, retryable: bool):
    done = described(kept, store, Failing(error))
    assert (done.status, done.reason, done.retryable) == ("failed", str(error), retryable)


INFORMATIVE = [
    "| Year | Sales |\n|---|---|\n| 2024 | 35 |",
    "| 구분 | 금액 |\n|---|---|\n| 서버 | - |\n| 합계 | 3,575만 원 |",
    "Title: Net sales by region. Period: 2019–2023.",
    "제목: 시스템 구성도\n기간: 없음\n범례: 없음\n웹 서버 → DB 서버",
    "No data for 2019. 2020: 35억 원.",
    "로고 아래의 막대그래프는 연도별 매출을 보여 준다: 2020년 700억 원, 2021년 850억 원, 2022년 900억 원, "
    "2023년 1,050억 원, 2024년 1,200억 원이며, 영업이익률은 같은 기간에 4.1%에서 7.1%로 올랐음을 보여 준다",
]
EMPTY = [
    "",
    "NO DATA",
    "해당 이미지에는 수치나 표가 없습니다.",
    "회사 로고입니다.",
    "This image is a logo of ULTA Beauty.",
    "Title: none\nPeriod: none\nLegend: none",
    "| Year | Sales |\n|---|---|",
    "| 구분 | 금액 |\n|---|---|\n| 합계 | 없음 |",
    "**NO DATA**",
]


@pytest.mark.parametrize("answer", INFORMATIVE)
def test_an_answer_that_says_something_is_kept(answer: str):
    assert is_informative(answer)


@pytest.mark.parametrize("answer", EMPTY)
def test_an_answer_that_says_nothing_is_not(answer: str):
    assert not is_informative(answer)


# Dry run


def several(store: Store) -> Sequence[FigureRecord]:
    pictures = [chart(90, 150, 60), chart(90, 150, 60), chart(30, 40, 50), grey(np.full((200, 200), 255))]
    records = [record(store, picture, n=n) for n, picture in enumerate(pictures, start=1)]
    return mark_repeated(records, load=store.load, settings=FigureSettings())


def test_the_plan_counts_what_a_run_would_do(store: Store):
    subject = plan_descriptions(several(store), documents=3)
    assert (subject.found, subject.kept, subject.duplicates, subject.expected_calls) == (4, 2, 1, 2)
    assert subject.dropped == {"qwen3_vl_min_nonwhite_ratio": 1}


def test_a_duplicate_in_another_document_takes_over_the_description_without_a_second_question(store: Store):
    records = [
        record(store, chart(90, 150, 60)),
        record(store, chart(90, 150, 60).resize((300, 225)), document="b" * 64),
    ]
    first, repeated = mark_repeated(records, load=store.load, settings=FigureSettings())
    chat, kept, limits = (
        ScriptedChat([Rule(answer="매출 35억 원")]),
        Kept(),
        Limits(CallSettings(), rng=random.Random(0)),
    )

    def ask(subject: FigureRecord) -> FigureRecord:
        png = store.load(subject.original or first.image)  # pyright: ignore[reportArgumentType]
        return describe(subject, png, chat=chat, responses=kept, limits=limits, settings=FigureSettings())

    assert [ask(first).status, ask(repeated).status] == ["described", "duplicate"]
    assert ask(repeated).text == "[PAGE 3 IMAGE 2]\n매출 35억 원"
    assert len(kept.rows) == 1
