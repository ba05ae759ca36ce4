"""Results files of other harnesses are read, and written for them."""

from __future__ import annotations

import io
import json
import subprocess
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tasks.evaluation.evaluation_records import Estimate, EvalReport, ModelFacts, Sample
from tasks.evaluation.results.foreign_results import SampleTexts, as_lm_eval, render_inspect_log
from tasks.evaluation.results.results_file import read_results
from tests.evaluation.reports import SAMPLES, report, task_result

SEED = {
    "results": {"AIME24": {"accuracy_avg": 0.65, "accuracy_std_err": 0.05, "num_total": 30, "solved_avg": 19.5}},
    "model_info": {
        "model_name": "deepseek-r1",
        "model_args": "api_base=http://h/v1,api_key=sk-1",
        "timestamp": "2024-01-01T12:00:00",
    },
}
HARNESS = {
    "results": {
        "arc_easy": {"alias": "arc_easy", "acc,none": 0.5, "acc_stderr,none": 0.1, "acc_norm,none": 0.75},
        "gsm8k": {
            "exact_match,strict-match": 0.25,
            "exact_match_stderr,strict-match": "N/A",
            "bits,none": float("nan"),
        },
    },
    "versions": {"arc_easy": 1.0},
    "higher_is_better": {"arc_easy": {"acc": True, "acc_norm": False}},
    "n-samples": {"arc_easy": {"original": 2376, "effective": 20}},
    "config": {"model": "hf", "model_args": {"pretrained": "org/tiny"}, "model_revision": "main"},
    "git_hash": "abc",
    "date": 1700000000.0,
}


def read(folder: Path, content: dict[str, Any]) -> EvalReport:
    file = folder / "results.json"
    file.write_text(json.dumps(content))
    return read_results(file)


def test_the_seeds_example_is_read(tmp_path: Path) -> None:
    report = read(tmp_path, SEED)
    (result,) = report.results
    (figure,) = result.estimates
    assert (report.run.model.name, report.run.started_at) == ("deepseek-r1", datetime(2024, 1, 1, 12, tzinfo=UTC))
    assert (figure.metric, figure.value, figure.std_err, figure.n, figure.headline) == (
        *("accuracy_avg", 0.65, 0.05),
        *(30, True),
    )
    assert result.metrics == SEED["results"]["AIME24"]
    assert "sk-1" not in report.model_dump_json()


def test_the_same_file_is_the_same_run(tmp_path: Path) -> None:
    assert read(tmp_path, SEED) == read(tmp_path, SEED)
    assert read(tmp_path, SEED).run.id != read(tmp_path, SEED | {"more": 1}).run.id


def test_results_of_the_harness_are_read(tmp_path: Path) -> None:
    report = read(tmp_path, HARNESS)
    model = report.run.model
    assert (model.name, model.backend, model.revision) == ("org/tiny", "hf", "main")
    arc, gsm = report.results
    assert [(one.metric, one.value, one.std_err, one.higher_is_better) for one in arc.estimates] == [
        ("acc", 0.5, 0.1, True),
        ("acc_norm", 0.75, None, False),
    ]
    assert [one.metric for one in arc.estimates if one.headline] == ["acc_norm"]
    assert (arc.counts.items, arc.version) == (20, "1.0")
    assert [(one.metric, one.std_err) for one in gsm.estimates] == [("exact_match,strict-match", None)]
    assert gsm.metrics["bits,none"] is None


def test_what_has_no_figure_is_left_out(tmp_path: Path) -> None:
    failed = {"results": SEED["results"] | {"Broken": {"error": "it crashed"}, "Odd": 3}}
    assert [result.task for result in read(tmp_path, SEED | failed).results] == ["AIME24"]


FIGURES = (
    Estimate(metric="exact_match,strict", value=0.25, n=4, headline=True),
    Estimate(metric="perplexity", value=9.0, std_err=0.5, n=4, higher_is_better=False),
)


def test_the_harness_finds_its_keys() -> None:
    told = as_lm_eval(report(task_result(estimates=FIGURES)))
    assert told["results"]["Sums"] == {
        "alias": "Sums",
        "exact_match,strict": 0.25,
        "exact_match_stderr,strict": "N/A",
        "perplexity,none": 9.0,
        "perplexity_stderr,none": 0.5,
    }
    assert told["higher_is_better"]["Sums"] == {"exact_match": True, "perplexity": False}
    assert told["n-samples"]["Sums"] == {"original": 2, "effective": 2}
    assert told["config"]["model_args"] == "pretrained=org/tiny"
    assert (told["config"]["random_seed"], told["config"]["fewshot_seed"]) == (0, 1234)
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_the_harness_prints_it_as_a_table() -> None:
    from lm_eval.utils import make_table

    assert "accuracy_avg" in make_table(as_lm_eval(report()))


def test_no_secret_is_exported() -> None:
    facts = ModelFacts(name="m", backend="openai", args={"api_key": "sk-1"})
    assert "sk-1" not in json.dumps(as_lm_eval(report(model=facts, config={"gen_kwargs": "api_key=sk-1"})))


INSPECT = Path(__file__).parents[2] / ".venv-inspect" / "bin" / "python"
"""Where `make bench` installs inspect_ai."""
READ = """
import json, sys
from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries
log = read_eval_log(sys.argv[1])
summaries = read_eval_log_sample_summaries(sys.argv[1])
print(json.dumps({
    "status": log.status,
    "metrics": {name: metric.value for name, metric in log.results.scores[0].metrics.items()},
    "samples": [
        [one.id, one.epoch, [score.value for score in one.scores.values()], len(one.messages), one.output.completion]
        for one in (read_eval_log_sample(sys.argv[1], each.id, each.epoch) for each in summaries)
    ],
}))
"""


SLASHES = Sample(item="test/algebra/9.json", score=1.0, extracted="4", gold="4")


def told(turns: int = 1) -> list[SampleTexts]:
    return [
        SampleTexts(
            sample,
            [f"{sample.item}, turn {turn}?" for turn in range(turns)],
            [f"answer {turn}" for turn in range(turns)],
        )
        for sample in (*SAMPLES, SLASHES)
    ]


def test_a_log_has_each_sample_with_its_score_and_the_unscored_without() -> None:
    made = report(task_result("Sums"))
    with zipfile.ZipFile(io.BytesIO(render_inspect_log(made, made.results[0], told()))) as log:
        names = [f"samples/{sample.item}_epoch_{sample.repeat + 1}.json" for sample in (*SAMPLES, SLASHES)]
        samples = [json.loads(log.read(name)) for name in names]
        header, summaries = json.loads(log.read("header.json")), json.loads(log.read("summaries.json"))
    assert [sample["scores"].get("accuracy_avg", {}).get("value") for sample in samples] == [1.0, 0.0, None, 0.5, 1.0]
    assert samples[2]["metadata"]["reason"] == "the grader died"
    assert [choice["stop_reason"] for choice in samples[1]["output"]["choices"]] == ["max_tokens"]
    assert (header["eval"]["dataset"]["sample_ids"], len(summaries)) == (["1", "2", SLASHES.item], 5)


@pytest.mark.peers
@pytest.mark.skipif(not INSPECT.exists(), reason="`make bench` installs inspect_ai")
@pytest.mark.parametrize("turns", [0, 1, 2])
def test_inspect_ai_reads_the_log_and_agrees_item_for_item(turns: int, tmp_path: Path) -> None:
    made = report(task_result("Sums"))
    log = tmp_path / "sums.eval"
    log.write_bytes(render_inspect_log(made, made.results[0], told(turns)))
    done = subprocess.run([INSPECT, "-c", READ, log], capture_output=True, text=True, check=True)
    read = json.loads(done.stdout)
    assert (read["status"], read["metrics"]["accuracy_avg"]) == ("success", 0.5)
    said = f"answer {turns - 1}" if turns else ""
    assert read["samples"] == [
        [one.item, one.repeat + 1, [] if one.score is None else [one.score], 2 * turns, said]
        for one in (*SAMPLES, SLASHES)
    ]
