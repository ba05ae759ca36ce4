"""Runs for other programs: logs of inspect_ai, and the schema of Every Eval Ever."""

from __future__ import annotations

import io
import json
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tasks.evaluation.evaluation_records import DataFacts, Sample
from tasks.evaluation.results.every_eval_ever import as_lines, eee_of, eee_samples
from tasks.evaluation.results.inspect_logs import Told, inspect_log
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
TEXT = {"type": "string"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
NUMBER = {"type": "number"}
NAMES = ("schema_version", "evaluation_id", "evaluation_timestamp", "retrieved_timestamp")
# what the published schemas ask of a record, in our own words; both refuse other names at their top
RECORD: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": [
        *(NAMES[:2]),
        "retrieved_timestamp",
        "source_metadata",
        "model_info",
        "eval_library",
        "evaluation_results",
    ],
    "properties": {
        **dict.fromkeys(NAMES, TEXT),
        "source_metadata": {
            "required": ["source_type", "source_organization_name", "evaluator_relationship"],
            "properties": {
                "source_type": {"enum": ["documentation", "evaluation_run"]},
                "evaluator_relationship": {"enum": ["first_party", "third_party", "collaborative", "other"]},
            },
        },
        "model_info": {"required": ["name", "id"], "properties": {"additional_details": TEXTS}},
        "eval_library": {"required": ["name", "version"], "properties": {"additional_details": TEXTS}},
        "detailed_evaluation_results": {
            "required": ["format", "file_path"],
            "properties": {"format": {"const": "jsonl"}, "total_rows": {"type": "integer"}, "checksum": TEXT},
        },
        "evaluation_results": {
            "type": "array",
            "items": {
                "required": ["evaluation_name", "source_data", "metric_config", "score_details"],
                "properties": {
                    "source_data": {
                        "required": ["dataset_name", "source_type"],
                        "properties": {"additional_details": TEXTS, "samples_number": {"type": "integer"}},
                        "oneOf": [
                            {"properties": {"source_type": {"const": "hf_dataset"}}, "required": ["hf_repo"]},
                            {"properties": {"source_type": {"const": "url"}}, "required": ["url"]},
                            {"properties": {"source_type": {"const": "other"}}},
                        ],
                    },
                    "metric_config": {
                        "required": ["lower_is_better", "score_type", "min_score", "max_score"],
                        "properties": {"score_type": {"const": "continuous"}, "min_score": NUMBER, "max_score": NUMBER},
                    },
                    "score_details": {
                        "required": ["score"],
                        "properties": {
                            "score": NUMBER,
                            "details": TEXTS,
                            "uncertainty": {
                                "properties": {
                                    "standard_error": {"required": ["value"]},
                                    "confidence_interval": {"required": ["lower", "upper"]},
                                    "num_samples": {"type": "integer"},
                                }
                            },
                        },
                    },
                    "generation_config": {
                        "properties": {
                            "generation_args": {
                                "additionalProperties": False,
                                "properties": {"temperature": NUMBER, "top_p": NUMBER, "max_tokens": {"minimum": 1}},
                            },
                            "additional_details": TEXTS,
                        }
                    },
                },
            },
        },
    },
}
INSTANCE: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["interaction_type", "input", "answer_attribution", "evaluation", "output", "messages"],
    "properties": {
        **dict.fromkeys(("schema_version", "evaluation_id", "model_id", "evaluation_name", "sample_id"), TEXT),
        "sample_hash": TEXT,
        "interaction_type": {"enum": ["single_turn", "multi_turn"]},
        "input": {"properties": {"raw": TEXT, "reference": {"type": "array", "items": TEXT}}},
        "output": {"type": ["object", "null"], "properties": {"raw": {"type": "array", "items": TEXT}}},
        "messages": {"type": ["array", "null"], "items": {"required": ["turn_idx", "role"]}},
        "answer_attribution": {
            "items": {"required": ["turn_idx", "source", "extracted_value", "extraction_method", "is_terminal"]}
        },
        "evaluation": {"required": ["score", "is_correct", "num_turns"], "properties": {"score": NUMBER}},
        "metadata": TEXTS,
    },
    "oneOf": [
        {
            "properties": {
                "interaction_type": {"const": "single_turn"},
                "output": {"type": "object"},
                "messages": {"type": "null"},
            }
        },
        {
            "properties": {
                "interaction_type": {"const": "multi_turn"},
                "output": {"type": "null"},
                "messages": {"type": "array", "minItems": 1},
            }
        },
    ],
}


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


@pytest.mark.parametrize("source", ["org/sums", "/data/sums.jsonl"])
@pytest.mark.parametrize("turns", [1, 2])
def test_a_record_has_the_schema_of_every_eval_ever(source: str, turns: int) -> None:
    data = DataFacts(name="Sums", source=source, checksum="b" * 64, count=2)
    made = report(task_result("Sums", data=data), task_result("Terms"))
    lines = as_lines(record for result in made.results for record in eee_samples(made, result, told(turns)))
    record = eee_of(made, samples=lines, samples_file="samples.jsonl")
    jsonschema.validate(record, RECORD)
    instances = [json.loads(line) for line in lines.splitlines()]
    for instance in instances:
        jsonschema.validate(instance, INSTANCE)
    assert len(instances) == record["detailed_evaluation_results"]["total_rows"] == 6  # the unscored are left out
    assert {instance["evaluation_id"] for instance in instances} == {record["evaluation_id"]}
    assert {one["evaluation_name"] for one in instances} <= {
        one["evaluation_name"] for one in record["evaluation_results"]
    }
