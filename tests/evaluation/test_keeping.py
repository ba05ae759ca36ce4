"""Runs as the evaluation tables hold them, and artifacts of many records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.artifacts import Artifacts
from tasks.evaluation.evaluation_records import Item, ModelFacts, Reply, Sample
from tasks.evaluation.record_lines import read_lines, read_shards, write_lines
from tasks.evaluation.results.results_file import build_rows, build_run_row, report_from_rows
from tests.evaluation.reports import SAMPLES, report, task_result, with_artifacts


def test_a_run_survives_the_way_to_rows_and_back() -> None:
    made = report(task_result("Sums"), task_result("Terms", judge=None, judge_usage=None))
    rows = [build_rows(made, result, lambda: SAMPLES) for result in made.results]
    assert report_from_rows(build_run_row(made), rows) == made


def test_refs_of_artifacts_survive(tmp_path_factory: pytest.TempPathFactory) -> None:
    artifacts = Artifacts(tmp_path_factory.mktemp("store"))
    made = report(with_artifacts(task_result(), artifacts))
    rows = build_rows(made, made.results[0], lambda: read_shards(artifacts, made.results[0].samples, Sample))
    assert report_from_rows(build_run_row(made), [rows]).results[0].samples == made.results[0].samples
    assert rows.more_samples is not None
    assert list(rows.more_samples()) == list(SAMPLES)


@pytest.mark.parametrize(
    ("facts", "external", "weights", "base"),
    [
        (ModelFacts(name="m", backend="openai"), True, None, None),
        (ModelFacts(name="m", backend="replay", args={"path": "answers.jsonl"}), False, None, None),
        (ModelFacts(name="m", backend="hf", args={"pretrained": "org/m"}), False, "org/m", None),
        (ModelFacts(name="m", backend="vllm", args={"pretrained": "org/m", "peft": "lora"}), False, "lora", "org/m"),
    ],
    ids=["served", "recorded", "weights", "adapter"],
)
def test_a_model_row_says_where_the_weights_are(
    facts: ModelFacts, external: bool, weights: str | None, base: str | None
) -> None:
    model = build_run_row(report(model=facts)).model
    assert model is not None
    assert (model.is_external, model.weights_location, model.base_model) == (external, weights, base)


def test_a_run_row_has_no_secret() -> None:
    facts = ModelFacts(name="m", backend="openai", args={"api_key": "sk-1", "max_tokens": 5})
    row = build_run_row(report(model=facts, config={"model_args": "api_key=sk-1,model=m"}))
    assert "sk-1" not in row.model_dump_json()
    assert row.model_args["max_tokens"] == 5


def test_an_index_has_no_report() -> None:
    row = build_run_row(report()).model_copy(update={"model": None})
    with pytest.raises(ValueError, match="measured an index"):
        report_from_rows(row, [])


anything = st.text(st.characters(), max_size=30)  # lone surrogates among them


@given(st.lists(anything, max_size=5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # the store may be shared
def test_every_record_is_a_line_that_reads_back(artifacts: Artifacts, texts: list[str]) -> None:
    written = [Reply(text=text) for text in texts]
    read = [reply.text for reply in read_lines(artifacts, write_lines(artifacts, "replies", written), Reply)]
    assert read == [text.encode("utf-8", "replace").decode() for text in texts]


def test_a_failure_on_the_way_leaves_nothing_behind(artifacts: Artifacts) -> None:
    def breaking() -> Iterator[Item]:
        yield from _items(2)
        raise ValueError("line 3 is no item")

    with pytest.raises(ValueError, match="line 3"):
        write_lines(artifacts, "items", breaking())
    assert [path for path in artifacts.root.rglob("*") if path.is_file()] == []


def _items(count: int) -> Iterator[Item]:
    return (Item(id=str(number), prompts=("?",)) for number in range(count))
