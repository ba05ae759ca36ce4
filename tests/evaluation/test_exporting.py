"""Runs for other programs."""

from __future__ import annotations

import json

from tasks.evaluation.evaluation_records import Estimate, ModelFacts
from tasks.evaluation.results.foreign_results import lm_eval_of
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
