"""Figures of several documents go through a model in this process together, and each says what became of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from models.causal_lm import HFVision
from storage.artifacts import Artifacts
from storage.records import Ref
from tasks.budget import Budget, Spending
from tasks.calls import CallSettings, Limits
from tasks.rag.corpus import Parsed, Pictured, Source
from tasks.rag.indexing.figures import DocumentFigures, FigureRecord, FigureSettings
from tasks.rag.indexing.picturing import Described, describe_figures
from tests.kept_responses import Kept
from tests.models.tiny_vision import make_png, make_png_without_pixels, make_tiny_qwen3

SETTINGS = FigureSettings(qwen3_vl_max_tokens=3)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> HFVision:
    return HFVision(str(make_tiny_qwen3(tmp_path_factory.mktemp("model"), context_tokens=4096)), device="cpu")


@pytest.fixture
def batches(model: HFVision, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sizes: list[int] = []
    real = model._generate

    def counted(batch: Sequence[Any], *how: Any) -> Any:
        sizes.append(len(batch))
        return real(batch, *how)

    monkeypatch.setattr(model, "_generate", counted)
    return sizes


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return Artifacts(tmp_path / "store")


def document(artifacts: Artifacts, number: int, *pngs: bytes) -> Pictured:
    digest = f"{number:064x}"
    place: dict[str, Any] = {"page": 1, "bbox": None, "source": "raster", "status": "kept"}
    records = [
        FigureRecord(document=digest, n=n, image=artifacts.put("figure", png), **place) for n, png in enumerate(pngs)
    ]
    figures = artifacts.save("figures", DocumentFigures(document=digest, figures=tuple(records)))
    source = Source(content=Ref(kind="document", digest=digest, size=1), suffix=".pdf")
    return Pictured(parsed=Parsed(source=source), figures=figures)


def described(
    model: HFVision, documents: Sequence[Pictured], artifacts: Artifacts, *, store: Kept, budget: Budget | None = None
) -> Described:
    limits = Limits(CallSettings(), rng=random.Random(0))
    chosen: dict[str, Any] = {"settings": SETTINGS, "chat": model, "responses": store, "limits": limits}
    return describe_figures(documents, artifacts, budget=budget or Budget(), **chosen)


def statuses(done: Described, artifacts: Artifacts) -> list[list[str]]:
    return [
        [record.status for record in artifacts.load(DocumentFigures, item.figures).figures]
        for item in done.pictured
        if item.figures
    ]


def test_figures_of_all_documents_share_batches_and_are_asked_about_once(
    model: HFVision, batches: list[int], artifacts: Artifacts
) -> None:
    documents = [document(artifacts, 1, make_png(1), make_png(2)), document(artifacts, 2, make_png(3), make_png(1))]
    store = Kept()
    first = described(model, documents, artifacts, store=store)
    assert batches == [3], "one picture stands there twice"
    assert described(model, documents, artifacts, store=store) == first
    assert batches == [3]


@pytest.mark.parametrize(
    "odd", [make_png(0, width=420, height=2), make_png_without_pixels()], ids=["of an odd shape", "without pixels"]
)
def test_a_figure_that_the_model_refuses_leaves_the_others_their_batch(
    model: HFVision, batches: list[int], artifacts: Artifacts, odd: bytes
) -> None:
    documents = [document(artifacts, 1, make_png(1), odd), document(artifacts, 2, make_png(2), make_png(3))]
    done = described(model, documents, artifacts, store=Kept())
    assert [status == "failed" for figures in statuses(done, artifacts) for status in figures] == [
        False,
        True,
        False,
        False,
    ]
    assert batches == [3]
    assert not done.unfinished


def test_what_the_budget_does_not_reach_waits_for_the_next_run(
    model: HFVision, batches: list[int], artifacts: Artifacts
) -> None:
    documents, store = [document(artifacts, 1, *(make_png(seed) for seed in range(4)))], Kept()
    done = described(model, documents, artifacts, store=store, budget=Budget(Spending(max_calls=3)))
    assert statuses(done, artifacts)[0].count("skipped") == 1
    assert batches == [3]
    assert statuses(described(model, documents, artifacts, store=store), artifacts)[0].count("skipped") == 0
    assert batches == [3, 1]
