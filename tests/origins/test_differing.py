"""Planted changes, one at a time: the cause is named first, and nothing else is, or only what follows from it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from storage.lineage import Edge, StepRun
from storage.lineages import FILE, Lineage
from tasks.keys import content_key
from tasks.origins.differing import causes, inside, made

PIPELINE: dict[str, Any] = {
    "documents": ["a", "b", "c"],
    "parse": {"version": 5, "parameters": {"options": {"ocr": "auto", "layout": "auto"}, "limits": {"seconds": 60}}},
    "chunk": {"version": 7, "parameters": {"chunk_chars": 900, "overlap_chars": 120, "tokenizer": "kiwi"}},
    "embed": {"version": 1, "parameters": {"embedder": "minilm"}},
    "publish": {"version": 1, "parameters": {"settings": {"bm25": True}, "index": "/tmp/one"}},
    "code": "0.1.0+aaaaaaaa",
}
STEPS = ("parse", "chunk", "embed", "publish")
Change = Callable[[dict[str, Any]], object]


def digest(*parts: object) -> str:
    return content_key("test", 1, {"parts": list(map(str, parts))})


def run(lineage: Lineage, pipeline: dict[str, Any]) -> str:
    """Records what a build of an index would; gives the digest of the index."""
    made = [digest(document) for document in pipeline["documents"]]
    before = "document"
    for step in STEPS:
        told, code = pipeline[step], pipeline["code"]
        sources, last = made, step == "publish"
        counted = {k: v for k, v in told["parameters"].items() if k not in ("index", "limits")}
        made = [digest(step, told["version"], counted, source) for source in sources]
        made = [digest(*sorted(made))] if last else made
        edges = [Edge(-1 if last else at, False, before, source, "content") for at, source in enumerate(sources)]
        edges += [Edge(-1 if last else at, True, step, one, "content") for at, one in enumerate(made)]
        key = digest(step, told, sources)
        ran = StepRun(
            key=key,
            step=f"tasks.rag.steps.{step}",
            version=told["version"],
            run="r",
            code=code,
            at=datetime.now(UTC),
            seconds=1,
            parameters=told["parameters"],
        )
        if not lineage.beginning(key):  # a cached step does not run again
            lineage.record(ran, edges)
        before = step
    return made[0]


def change(path: str, value: object) -> Change:
    def planted(pipeline: dict[str, Any]) -> None:
        *above, last = path.split(".")
        place = pipeline
        for name in above:
            place = place[name]
        place[last] = value

    return planted


PLANTED: list[tuple[str, Change, tuple[str, str, str]]] = [
    ("a document added", lambda p: p["documents"].append("d"), ("input", "document", digest("d"))),
    ("a document gone", lambda p: p["documents"].remove("b"), ("input", "document", digest("b"))),
    ("OCR off", change("parse.parameters.options.ocr", "off"), ("parameter", "parse", "options.ocr")),
    ("layout off", change("parse.parameters.options.layout", "off"), ("parameter", "parse", "options.layout")),
    ("chunks", change("chunk.parameters.chunk_chars", 1200), ("parameter", "chunk", "chunk_chars")),
    ("overlap", change("chunk.parameters.overlap_chars", 0), ("parameter", "chunk", "overlap_chars")),
    ("tokenizer", change("chunk.parameters.tokenizer", "bigram"), ("parameter", "chunk", "tokenizer")),
    ("embedder", change("embed.parameters.embedder", "e5"), ("parameter", "embed", "embedder")),
    ("without BM25", change("publish.parameters.settings.bm25", False), ("parameter", "publish", "settings.bm25")),
    *((f"version of {step}", change(f"{step}.version", 99), ("step version", step, "")) for step in STEPS),
]


@pytest.mark.parametrize(("planted", "first"), [(p, f) for _, p, f in PLANTED], ids=[name for name, *_ in PLANTED])
def test_a_planted_change_is_named_first(tmp_path: Path, planted: Change, first: tuple[str, str, str]) -> None:
    lineage, changed = Lineage(None, tmp_path / FILE), copy.deepcopy(PIPELINE)
    planted(changed)
    changed["code"] = "0.1.0+bbbbbbbb"  # the program moves on with every commit
    one, other = (inside(run(lineage, pipeline), lineage) for pipeline in (PIPELINE, changed))

    found = causes(one, other)

    assert (found[0].what, found[0].where, found[0].name) == first
    assert [cause.what for cause in found[1:]] in ([], ["code"])


def test_a_document_with_another_content_is_one_cause(tmp_path: Path) -> None:
    lineage, changed = Lineage(None, tmp_path / FILE), copy.deepcopy(PIPELINE)
    changed["documents"][0] = "A"
    one, other = (inside(run(lineage, pipeline), lineage) for pipeline in (PIPELINE, changed))
    [cause, *_] = causes(one, other, names={digest("a"): "a.pdf", digest("A"): "a.pdf"})
    assert (cause.name, cause.one, cause.other) == ("a.pdf", digest("a"), digest("A"))


def test_where_results_go_is_no_cause(tmp_path: Path) -> None:
    lineage, changed = Lineage(None, tmp_path / FILE), copy.deepcopy(PIPELINE)
    changed["publish"]["parameters"]["index"] = "/tmp/other"
    one, other = (inside(run(lineage, pipeline), lineage) for pipeline in (PIPELINE, changed))
    assert causes(one, other) == []


def test_what_was_drawn_with_another_seed_is_no_cause_and_the_seed_is(tmp_path: Path) -> None:
    lineage = Lineage(None, tmp_path / FILE)
    for seed, sign in ((3, "a"), (4, "b")):
        drawn = StepRun(
            key=digest("draw", seed),
            step="tasks.lever.steps.draw",
            version=1,
            run="r",
            code="0.1.0",
            at=datetime.now(UTC),
            seconds=1,
            parameters={"seed": seed, "folder": f"/tmp/{sign}"},
        )
        used = drawn.model_copy(update={"key": digest("use", seed), "step": "tasks.lever.steps.use", "parameters": {}})
        lineage.record(drawn, [Edge(-1, True, "scenes", digest(sign), "content")])
        lineage.record(used, [Edge(-1, False, "scenes", digest(sign), "x"), Edge(-1, True, "run", digest(seed), "")])
    one, other = (inside(digest(seed), lineage) for seed in (3, 4))
    assert [(cause.what, cause.where, cause.name) for cause in causes(one, other)] == [("parameter", "draw", "seed")]


def test_documents_that_an_earlier_scan_found_are_told_as_inputs(tmp_path: Path) -> None:
    """A scan of another folder had left out a file when it found the first three: these two runs did not."""
    lineage, changed = Lineage(None, tmp_path / FILE), copy.deepcopy(PIPELINE)
    changed["documents"].append("d")
    for document in "abcd":
        left_out: list[JsonValue] = [] if document == "d" else ["metadata.csv"]
        scanned = StepRun(
            key=digest("scan", document),
            step="tasks.rag.steps.scan",
            version=1,
            run="r",
            code="0.1.0+aaaaaaaa",
            at=datetime.now(UTC),
            seconds=1,
            parameters={"folder": "/tmp/a", "exclude": left_out},
        )
        lineage.record(scanned, [Edge(-1, True, "document", digest(document), "content")])
    one, other = (inside(run(lineage, pipeline), lineage) for pipeline in (PIPELINE, changed))
    assert [(cause.what, cause.name) for cause in causes(one, other)] == [("input", digest("d"))]


def test_what_was_made_is_counted_by_kind(tmp_path: Path) -> None:
    """Another chunk size cuts three documents anew; their pages stay."""
    lineage, other = Lineage(None, tmp_path / FILE), copy.deepcopy(PIPELINE)
    other["chunk"]["parameters"]["chunk_chars"] = 500
    before, after = (inside(run(lineage, pipeline), lineage) for pipeline in (PIPELINE, other))
    found = {one.kind: (one.same, one.one, one.other) for one in made(before, after)}
    assert found == {"parse": (3, 0, 0), "chunk": (0, 3, 3), "embed": (0, 3, 3), "publish": (0, 1, 1)}
