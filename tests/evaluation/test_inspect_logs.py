"""Logs of inspect_ai."""

from __future__ import annotations

import io
import json
import subprocess
import zipfile
from pathlib import Path

import pytest

from tasks.evaluation.evaluation_records import Sample
from tasks.evaluation.results.foreign_results import Told, inspect_log
from tests.evaluation.reports import SAMPLES, report, task_result

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


def told(turns: int = 1) -> list[Told]:
    return [
        Told(
            sample,
            [f"{sample.item}, turn {turn}?" for turn in range(turns)],
            [f"answer {turn}" for turn in range(turns)],
        )
        for sample in SAMPLES
    ]


def test_a_log_has_each_sample_with_its_score_and_the_unscored_without() -> None:
    made = report(task_result("Sums"))
    with zipfile.ZipFile(io.BytesIO(inspect_log(made, made.results[0], told()))) as log:
        names = [f"samples/{sample.item}_epoch_{sample.repeat + 1}.json" for sample in SAMPLES]
        samples = [json.loads(log.read(name)) for name in names]
        header, summaries = json.loads(log.read("header.json")), json.loads(log.read("summaries.json"))
    assert [sample["scores"].get("accuracy_avg", {}).get("value") for sample in samples] == [1.0, 0.0, None, 0.5]
    assert samples[2]["metadata"]["reason"] == "the grader died"
    assert [choice["stop_reason"] for choice in samples[1]["output"]["choices"]] == ["max_tokens"]
    assert (header["eval"]["dataset"]["sample_ids"], len(summaries)) == (["1", "2"], 4)


@pytest.mark.peers
@pytest.mark.skipif(not INSPECT.exists(), reason="`make bench` installs inspect_ai")
@pytest.mark.parametrize("turns", [0, 1, 2])
def test_inspect_ai_reads_the_log_and_agrees_item_for_item(turns: int, tmp_path: Path) -> None:
    made = report(task_result("Sums"))
    log = tmp_path / "sums.eval"
    log.write_bytes(inspect_log(made, made.results[0], told(turns)))
    done = subprocess.run([INSPECT, "-c", READ, log], capture_output=True, text=True, check=True)
    read = json.loads(done.stdout)
    assert (read["status"], read["metrics"]["accuracy_avg"]) == ("success", 0.5)
    said = f"answer {turns - 1}" if turns else ""
    assert read["samples"] == [
        [one.item, one.repeat + 1, [] if one.score is None else [one.score], 2 * turns, said] for one in SAMPLES
    ]


@pytest.mark.peers
@pytest.mark.skipif(not INSPECT.exists(), reason="`make bench` installs inspect_ai")
def test_an_item_with_slashes_is_found(tmp_path: Path) -> None:
    made = report(task_result("Sums"))
    log = tmp_path / "sums.eval"
    sample = Sample(item="test/algebra/9.json", score=1.0, extracted="4", gold="4")
    log.write_bytes(inspect_log(made, made.results[0], [Told(sample, ["?"], ["4"])]))
    done = subprocess.run([INSPECT, "-c", READ, log], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["samples"] == [["test/algebra/9.json", 1, [1.0], 2, "4"]]
