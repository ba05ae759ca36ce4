"""A task of the lm-evaluation-harness as one of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storage.artifacts import Artifacts
from tasks.evaluation.evaluation_records import Item, Response, Sample, TaskResult
from tasks.evaluation.harness.harness_run import is_harness_task, result_of
from tasks.evaluation.record_lines import read_lines
from tasks.evaluation.results.results_file import rows_of
from tasks.evaluation.running.open_models import Asking, ModelSpec, release_models
from tasks.evaluation.running.planning import RunSettings
from tests.evaluation.reports import report

pytest.importorskip("lm_eval")

GENERATIVE = """
task: echo
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["###"], max_gen_toks: 20}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
"""

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.parametrize(
    ("text", "theirs"),
    [
        ("task: mine\ndataset_path: json\n", True),
        ("# a group\ngroup: mine\ntask: [a, b]\n", True),
        ("tag: mine\n", True),
        ("name: Mine\nprompt: '{q}'\ndata: {file: a.jsonl}\n", False),
        ("name: Mine\nprompt: |\n  task: write\n", False),
        ("", False),
    ],
)
def test_a_yaml_of_the_harness_is_told_from_one_of_ours(tmp_path: Path, text: str, theirs: bool) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    assert is_harness_task(str(path), None) is theirs


def written(folder: Path, text: str) -> Path:
    data, path = folder / "data.jsonl", folder / f"{text.split()[1]}.yaml"
    rows = [{"question": f"q{n}", "answer": f"You said: q{n}" if n < 2 else "else"} for n in range(4)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    path.write_text(text.replace("DATA", str(data)))
    return path


def found(path: Path, artifacts: Artifacts, **settings: object) -> TaskResult:
    release_models()
    asking = Asking(ModelSpec(backend="scripted"))
    return result_of(str(path), asking, artifacts, settings=RunSettings.model_validate(settings), include_path=None)


def test_what_the_harness_finds_is_kept_like_all_else(tmp_path: Path, artifacts: Artifacts) -> None:
    result = found(written(tmp_path, GENERATIVE), artifacts)
    assert (result.task, result.family, result.counts.items, result.usage.calls) == ("echo", "pretrain", 4, 4)
    assert result.headline
    assert result.headline.value == 0.5
    [samples], [responses] = result.samples, result.responses
    assert [one.score for one in read_lines(artifacts, samples, Sample)] == [1, 1, 0, 0]
    assert [one.text for one in read_lines(artifacts, responses, Response)] == [f"You said: q{n}" for n in range(4)]
    assert result.items
    assert [one.id for one in read_lines(artifacts, result.items, Item)] == [
        one.item for one in read_lines(artifacts, samples, Sample)
    ]
    assert rows_of(report(result), result, lambda: ()).dataset.name == "echo"
