"""A sweep: its grid, its keys, what is kept of it, how its points compare, and its picture."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime

import pymupdf
import pytest
from pydantic import JsonValue

from tasks.rag.measuring.ranking_metrics import Ranked, score_ranking, summarise
from tasks.rag.measuring.sweep import (
    Chunking,
    Compared,
    Point,
    Swept,
    as_csv,
    as_json,
    baseline,
    compare,
    draw_sweep,
    grid,
    point_key,
    read_chunkings,
    read_kept,
    read_weights,
)

LARGE, SMALL = Chunking(chunk_chars=800, overlap_chars=120), Chunking(chunk_chars=300, overlap_chars=50)
USUAL = Point(chunking=LARGE, strategy="rrf", bm25_weight=1.0)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def swept(point: Point, ranks: list[int], *, paged: bool = True) -> Swept:
    """A point at which the gold page of each question has the rank given."""
    figures = [score_ranking([f"p{rank}" for rank in range(1, 11)], {f"p{gold}"}) for gold in ranks]
    ranked = tuple(Ranked(id=str(at), page=one if paged else {}, document=one) for at, one in enumerate(figures))
    return Swept(
        key=point.name,
        point=point,
        index_generation="000001-aaaaaaaaaaaa",
        index_digest="a" * 64,
        chunks=12,
        evaluation=summarise(ranked),
        ranked=ranked,
        question_ms=1.5,
        started_at=NOON,
        ended_at=NOON,
    )


def compared() -> Compared:
    other = Point(chunking=SMALL, strategy="bm25")
    return compare([swept(USUAL, [1, 2, 4, 1]), swept(other, [1, 1, 2, 1])], USUAL)


def test_chunkings_are_characters_and_overlap() -> None:
    assert read_chunkings("800/120, 300/50,800/120") == (LARGE, SMALL)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("800", "'800' is not CHARACTERS/OVERLAP"),
        ("800/120,", "'' is not CHARACTERS/OVERLAP"),
        ("many/few", "'many/few' is not"),
        ("50/5", "100 to 20,000 characters"),
        ("300/200", "more than half"),
    ],
)
def test_a_wrong_chunking_is_named(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_chunkings(text)


@pytest.mark.parametrize(("text", "said"), [("1,x", "'x' is no number"), ("-1", "0 or more"), ("nan", "0 or more")])
def test_a_wrong_weight_is_named(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_weights(text)


def test_weights_multiply_rrf_alone() -> None:
    points = grid((LARGE, SMALL), ("rrf", "bm25"), bm25_weights=(0.5, 1.0), rerankers=(None, "m"))
    assert len(points) == len(set(points)) == 2 * (2 + 1) * 2
    assert {point.bm25_weight for point in points if point.strategy == "bm25"} == {None}


def test_the_usual_point_is_what_others_are_compared_with_if_it_is_there() -> None:
    points = grid((SMALL, LARGE), ("bm25", "rrf"), bm25_weights=(1.0,), rerankers=(None,))
    assert baseline(points, USUAL) == USUAL
    assert baseline(points[:1], USUAL) == points[0]


@pytest.mark.parametrize(
    ("point", "index", "questions", "settings"),
    [
        (Point(chunking=LARGE, strategy="rrf", bm25_weight=2.0), "i", "q", {}),
        (USUAL, "other", "q", {}),
        (USUAL, "i", "other", {}),
        (USUAL, "i", "q", {"route": True}),
    ],
    ids=["point", "index", "questions", "settings"],
)
def test_whatever_can_change_a_figure_changes_the_key(
    point: Point, index: str, questions: str, settings: dict[str, JsonValue]
) -> None:
    first = point_key(USUAL, index_digest="i", questions="q", settings={})
    assert first == point_key(USUAL, index_digest="i", questions="q", settings={})
    assert first != point_key(point, index_digest=index, questions=questions, settings=settings)


def test_a_line_that_was_cut_off_is_measured_again() -> None:
    whole = swept(USUAL, [1]).model_dump_json()
    assert read_kept([whole, "", whole[: len(whole) // 2]]) == {USUAL.name: swept(USUAL, [1])}


def test_points_are_sorted_and_compared_by_question() -> None:
    # reciprocal ranks: 1, 1/2, 1/4, 1 against 1, 1, 1/2, 1
    better, usual = compared().rows
    assert (better.value.value, usual.value.value) == (0.875, 0.6875)
    assert better.difference
    assert better.difference.value == 0.1875
    assert 0 <= better.difference.low < 0.1875 < better.difference.high
    assert usual.difference is None


def test_without_gold_pages_documents_are_compared() -> None:
    result = compare([swept(USUAL, [1, 2], paged=False)], USUAL)
    assert (result.unit, result.rows[0].value.value) == ("document", 0.75)


def test_a_sweep_without_its_baseline_is_refused() -> None:
    with pytest.raises(ValueError, match="was not measured"):
        compare([swept(Point(chunking=SMALL, strategy="bm25"), [1])], USUAL)


def test_json_and_csv_tell_the_same() -> None:
    told, (line, _) = as_json(compared()), csv.DictReader(io.StringIO(as_csv(compared())))
    points = told["points"]
    assert isinstance(points, list)
    assert isinstance(points[0], dict)
    assert points[0]["difference"] == {"value": 0.1875, "low": float(line["difference_low"]), "high": 0.375}
    assert (line["strategy"], line["bm25_weight"], float(line["page_mrr@10"])) == ("bm25", "", 0.875)
    assert told["unit"] == "page"


def test_the_picture_holds_every_search_and_every_chunking() -> None:
    drawn = ElementTree.fromstring(draw_sweep(compared(), "svg"))
    written = {comment.strip() for comment in _comments(draw_sweep(compared(), "svg").decode())}
    assert drawn.tag.endswith("svg")
    assert {"rrf, BM25 × 1", "bm25", "page MRR@10"} <= written
    assert any("chunks of 300 characters" in text for text in written)


def _comments(svg: str) -> list[str]:
    """matplotlib draws text as paths, and writes what it says beside them."""
    return [part.partition("-->")[0] for part in svg.split("<!--")[1:]]


def test_equal_figures_give_an_equal_picture() -> None:
    assert draw_sweep(compared(), "svg") == draw_sweep(compared(), "svg")


@pytest.mark.parametrize("points", [1, 60])
def test_a_picture_of_one_point_and_of_many_can_be_drawn(points: int) -> None:
    weights = tuple(float(weight) for weight in range(1, points // 2 + 2))
    every = grid((LARGE, SMALL), ("rrf",), bm25_weights=weights, rerankers=(None,))[:points]
    png = draw_sweep(compare([swept(point, [1, 3]) for point in every], every[0]), "png")
    picture = pymupdf.Pixmap(png)
    assert picture.width > 1000
    assert len(set(picture.samples)) > 20  # not a blank sheet
