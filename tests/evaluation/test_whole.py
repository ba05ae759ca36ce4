"""Benchmarks with evalchemy's two methods, run in one piece."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from models.model_errors import RequestRefused
from models.protocols import ChatRequest
from models.scripted import ScriptedChat
from storage.artifacts import Artifacts
from tasks.evaluation.evaluation_errors import BenchmarkUnusable, NeedsLogLikelihood
from tasks.evaluation.evaluation_records import Estimate, Sampling, TaskResult
from tasks.evaluation.running.open_models import Asking, ModelSpec, release_models
from tasks.evaluation.running.whole_benchmarks import AsLM, read_messages, read_sampling, run_benchmark
from tests.evaluation.sums import last_words, plan_of

pytest.importorskip("lm_eval")

MINE = '''
import numpy as np
from lm_eval.api.instance import Instance
from tasks.evaluation.benchmarks.base import BaseBenchmark


class MineBenchmark(BaseBenchmark):
    """Three sums, asked twice, in the way of evalchemy."""

    def __init__(self, logger=None, system_instruction=None):
        super().__init__(logger, system_instruction)
        self.n_repeat = 2

    def generate_responses(self, model):
        examples = [{"problem": f"{n} + {n}", "answer": str(2 * n)} for n in range(3)]
        outputs = []
        for i in range(self.n_repeat):
            instances = []
            for idx, example in enumerate(examples):
                messages = [{"role": "user", "content": f"Problem: {example['problem']}"}]
                text = self._prepare_messages(messages, model)
                options = {"do_sample": False, "max_new_tokens": 99, "temperature": 0.7, "seed": [i, i, i, i]}
                instance = Instance("generate_until", example, (text, options), idx)
                instance.repeat_idx = i
                instances.append(instance)
            outputs.append(self.compute(model, instances))
        if model.rank != 0:
            return None
        for example, outs in zip(examples, zip(*outputs)):
            example["model_outputs"] = list(outs)
        return {"examples": examples}

    def evaluate_responses(self, results):
        if results is None:
            return None
        shares = [
            np.mean([float(one["answer"] in one["model_outputs"][i][-1:]) for one in results["examples"]])
            for i in range(self.n_repeat)
        ]
        METRICS
'''
FIGURES = """return {
            "num_total": np.int64(3), "accuracy_avg": np.mean(shares), "accuracy_std_err": np.std(shares) / 2**0.5,
            "num_repeat": 2, "run_stats": [{"repetition": 0, "accuracy": shares[0]}], "whole": True,
        }"""

pytestmark = pytest.mark.usefixtures("here")


def written(folder: Path, metrics: str = FIGURES) -> Path:
    path = folder / "mine.py"
    path.write_text(MINE.replace("METRICS", metrics))
    return path


class Heard(ScriptedChat):
    """Remembers what it was asked."""

    def __init__(self, refuses: str = "nothing") -> None:
        super().__init__()
        self.requests: list[ChatRequest] = []
        self._refuses = refuses

    def complete(self, request: ChatRequest, **options: Any) -> Any:
        self.requests.append(request)
        if last_words(request) == self._refuses:
            raise RequestRefused("no sums of this kind")
        return super().complete(request, **options)


def asked(
    path: Path, artifacts: Artifacts, refuses: str = "nothing", **settings: Any
) -> tuple[TaskResult, list[ChatRequest]]:
    release_models()
    asking = Asking(ModelSpec(backend="scripted"))
    asking.chat = Heard(refuses)
    found = run_benchmark(plan_of(path, artifacts, **settings), asking, artifacts)
    return found, asking.chat.requests


def test_metrics_of_the_benchmark_become_figures_with_their_errors(tmp_path: Path, artifacts: Artifacts) -> None:
    found, _ = asked(written(tmp_path), artifacts)
    # "You said: Problem: n + n" ends with n, and n is 2n only for 0: one of three in both repeats
    assert found.metrics["accuracy_avg"] == pytest.approx(1 / 3)
    assert found.metrics["run_stats"] == [{"repetition": 0, "accuracy": pytest.approx(1 / 3)}]
    assert (found.task, found.metrics["num_total"], found.metrics["whole"]) == ("Mine", 3, True)
    assert found.estimates == (
        Estimate(metric="accuracy_avg", value=found.estimates[0].value, std_err=0.0, n=3, headline=True),
    )
    assert (found.counts.items, found.data.count, found.usage.calls) == (3, 3, 6)


def test_requests_without_an_answer_are_told_beside_the_figures(tmp_path: Path, artifacts: Artifacts) -> None:
    found, _ = asked(written(tmp_path), artifacts, refuses="Problem: 0 + 0")
    assert found.metrics["accuracy_avg"] == 0
    assert found.notes[1].startswith("2 requests got no answer")
    assert "no sums of this kind" in found.notes[1]


def test_what_it_asks_for_is_what_is_asked(tmp_path: Path, artifacts: Artifacts) -> None:
    _, requests = asked(written(tmp_path), artifacts)
    assert sorted((last_words(one), one.draw, one.seed) for one in requests) == [
        (f"Problem: {n} + {n}", repeat, repeat) for n in range(3) for repeat in range(2)
    ]
    assert {(one.temperature, one.max_tokens, one.template) for one in requests} == {(0.7, 99, True)}


@pytest.mark.parametrize(
    ("metrics", "figures", "headline"),
    [
        ("return {'accuracy': 0.5, 'accuracy_stderr': 0.1}", {"accuracy": 0.1}, "accuracy"),
        ("return {'accuracy': np.float32(0.5), 'level_accuracy': {'1': 0.4}}", {"accuracy": None}, "accuracy"),
        ("return {'accuracy': 0.5, 'accuracy_std_err': float('nan')}", {"accuracy": None}, "accuracy"),
        ("return {'note': 'nothing'}", {}, None),
    ],
)
def test_numbers_among_the_metrics_are_figures(
    tmp_path: Path, artifacts: Artifacts, metrics: str, figures: dict[str, float | None], headline: str | None
) -> None:
    found, _ = asked(written(tmp_path, metrics), artifacts)
    assert {one.metric: one.std_err for one in found.estimates} == figures
    assert (found.headline.metric if found.headline else None) == headline


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ("return [1]", "evaluate_responses gave list, expected a dict"),
        ("return {'a': 1 / 0}", "evaluate_responses failed with ZeroDivisionError: division by zero"),
    ],
)
def test_a_method_that_fails_is_named(tmp_path: Path, artifacts: Artifacts, metrics: str, said: str) -> None:
    with pytest.raises(BenchmarkUnusable, match=said) as failed:
        asked(written(tmp_path, metrics), artifacts)
    assert str(failed.value).startswith(str(tmp_path / "mine.py"))


def test_generation_arguments_become_sampling() -> None:
    given = {"do_sample": False, "temperature": 0.7, "max_new_tokens": 32768, "seed": [3, 1237, 1237, 1237]}
    sampling = Sampling(temperature=0.7, max_tokens=32768, seed=3, stop=("###",), top_p=0.9)
    assert read_sampling(given | {"until": ["###"], "top_p": 0.9}) == sampling


def test_a_conversation_keeps_its_messages_and_log_probabilities_are_refused() -> None:
    model = AsLM(lambda requests: iter(()), name="m")
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?"}]
    prompt = model.apply_chat_template(chat, add_generation_prompt=True)
    assert "1+1?" in prompt
    assert [one.role for one in read_messages(prompt)] == ["system", "user"]
    with pytest.raises(NeedsLogLikelihood, match="log-probabilities"):
        model.loglikelihood([])
