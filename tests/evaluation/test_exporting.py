"""Runs for other programs."""

from __future__ import annotations

import json
from typing import Any

import yaml
from huggingface_hub import EvalResult, ModelCard

from tasks.evaluation.evaluation_records import Estimate, ModelFacts
from tasks.evaluation.results.foreign_results import lm_eval_of, model_card_of
from tests.evaluation.reports import report, task_result

FIGURES = (
    Estimate(metric="exact_match,strict", value=0.25, n=4, headline=True),
    Estimate(metric="perplexity", value=9.0, std_err=0.5, n=4, higher_is_better=False),
)


def test_the_harness_finds_its_keys() -> None:
    told = lm_eval_of(report(task_result(estimates=FIGURES)))
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

    assert "accuracy_avg" in make_table(lm_eval_of(report()))


def test_no_secret_is_exported() -> None:
    facts = ModelFacts(name="m", backend="openai", args={"api_key": "sk-1"})
    assert "sk-1" not in json.dumps(lm_eval_of(report(model=facts, config={"gen_kwargs": "api_key=sk-1"})))


def test_the_hub_reads_the_model_card() -> None:
    card: Any = ModelCard(model_card_of(report(task_result("Sums"), task_result("Terms")))).data
    results: list[EvalResult] = card.eval_results
    assert [(one.dataset_name, one.dataset_type, one.metric_type, one.metric_value) for one in results] == [
        ("Sums", "own/sums", "accuracy_avg", 0.5),
        ("Terms", "own/sums", "accuracy_avg", 0.5),
    ]
    assert results[0].metric_args == {
        "n": 2,
        "std_err": 0.25,
        "low": 0.1,
        "high": 0.9,
        "repeats": 2,
        "unscored": 1,
        "judge": "openai:grader",
    }
    assert card.model_name == "org/tiny"


def test_a_path_of_this_machine_is_on_no_card() -> None:
    local = task_result(data=task_result().data.model_copy(update={"source": "/home/me/sums.jsonl"}))
    assert "/home/me" not in model_card_of(report(local))


def test_a_hostile_name_is_a_plain_string_on_the_card() -> None:
    name = "evil: !!python/object\n---\n"
    text = model_card_of(report(model=ModelFacts(name=name, backend="hf")))
    assert yaml.safe_load(text.split("---\n", 1)[1].rsplit("---\n", 1)[0])["model-index"][0]["name"] == name
