"""Tasks of the lm-evaluation-harness with our backends as its model, on small tasks of our own."""

from __future__ import annotations

import logging
import math
import os
import random
import re
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from models.model_errors import ContextOverflow, ModelUnavailable, RequestRefused, TransientModelError
from models.protocols import ChatRequest, ChatResponse, LogProb, Text
from models.scripted import Rule, ScriptedChat
from tasks.bulk import ask_all
from tasks.calls import CallSettings, Limits
from tasks.evaluation.evaluation_errors import BenchmarkUnusable, DataMissing, NeedsLogLikelihood, UnknownTask
from tasks.evaluation.harness.harness_run import HarnessOutcome, evaluate_harness, is_harness_task
from tasks.evaluation.harness.harness_tasks import list_tasks
from tasks.evaluation.results.results_file import build_rows
from tasks.evaluation.running.open_models import Asking, ModelSpec, release_models
from tasks.evaluation.running.planning import RunSettings
from tasks.resources import optional_responses
from tests.evaluation.reports import report
from tests.kept_responses import Kept

SAMPLES = Path(__file__).parents[2] / "samples" / "harness"
"""Tasks of our own with their data: sums to write, endings to choose, texts to weigh, and a group of the last two."""
GENERATE = (SAMPLES / "sums.yaml").read_text()
ANSWERS = ["4", "7", "18", "6"]
TEXTS = ["the cat sat on the mat", "a dog"]


class Letters(ScriptedChat):
    """Knows how often letters are in English, and nothing else: log-probability of a text = sum over its letters."""

    often = " etaoinshrdlucmfwypvbgkjqxz"

    def __init__(self) -> None:
        super().__init__()
        self.id = "scripted:letters"
        self.asked = 0
        self.dies_after = 10**9

    def loglikelihood(self, pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[int, LogProb]]:
        for number, (_, continuation) in enumerate(pairs):
            yield number, LogProb(self._total(continuation), greedy=False)

    def loglikelihood_rolling(self, texts: Sequence[str]) -> Iterator[tuple[int, float]]:
        for number, text in enumerate(texts):
            yield number, self._total(text)

    def _total(self, text: str) -> float:
        self.asked += 1
        if self.asked > self.dies_after:
            raise ModelUnavailable("the machine is gone")
        return sum(-math.log(2 + self.often.find(letter.lower()) + 28 * (letter not in self.often)) for letter in text)


class Adder:
    """Adds the last two numbers of a prompt, in a sentence."""

    id = "adder:1"

    def __init__(self) -> None:
        self.requests: list[ChatRequest] = []
        self.before: Callable[[str], None] = lambda prompt: None

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        prompt = "\n".join(part.text for turn in request.messages for part in turn.content if isinstance(part, Text))
        self.requests.append(request)
        self.before(prompt)
        first, second = re.findall(r"\d+", prompt)[-2:]
        return ChatResponse(text=f"It is {int(first) + int(second)}", finish_reason="stop")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    shutil.copytree(SAMPLES, tmp_path, dirs_exist_ok=True)
    return tmp_path


def run(name: str | Path, model: Any, store: Kept | None = None, **options: Any) -> HarnessOutcome:
    store = store or Kept()
    limits = Limits(CallSettings(concurrency=2, first_delay_s=0, tries=1), rng=random.Random(1))
    asking = partial(ask_all, model, responses=store, limits=limits)
    include = options.pop("include_path", None)
    settings = RunSettings.model_validate({"apply_chat_template": False} | options)
    return evaluate_harness(
        str(name), model=model, ask_all=asking, responses=store, settings=settings, include_path=include
    )


def test_answers_are_generated_filtered_and_counted(folder: Path):
    outcome = run(folder / "sums.yaml", Adder())
    assert outcome.result.metrics == {"exact_match,last-number": 1.0, "exact_match_stderr,last-number": 0.0}
    [headline] = outcome.result.estimates
    assert (headline.metric, headline.value, headline.n, headline.headline) == ("exact_match,last-number", 1.0, 4, True)
    assert [(sample.item, sample.extracted, sample.gold, sample.score) for sample in outcome.samples] == [
        (str(number), answer, answer, 1.0) for number, answer in enumerate(ANSWERS)
    ]
    assert [response.text for response in outcome.responses] == [f"It is {answer}" for answer in ANSWERS]
    assert all(len(sample.keys) == 1 for sample in outcome.samples)


def test_a_wrong_answer_and_a_missing_one_are_told_apart(folder: Path):
    script = [Rule(prompt="2 \\+ 2", answer="It is 5"), Rule(prompt="9 \\+ 9", answer=""), Rule(prompt="", answer="6")]
    outcome = run(folder / "sums.yaml", ScriptedChat(script))
    assert outcome.result.metrics["exact_match,last-number"] == 0.25
    assert [(sample.extracted, sample.missing) for sample in outcome.samples] == [
        ("5", False),
        ("6", False),
        (None, True),
        ("6", False),
    ]


def test_standard_errors_are_the_harness_own_and_intervals_wilsons(folder: Path):
    outcome = run(folder / "sums.yaml", ScriptedChat([Rule(answer="6")]))
    [headline] = outcome.result.estimates
    assert headline.std_err == pytest.approx(math.sqrt(0.25 * 0.75 / 3))  # sample deviation / sqrt(4)
    assert (headline.low, headline.high) == (pytest.approx(0.0456, abs=1e-3), pytest.approx(0.6994, abs=1e-3))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, {"temperature": 0.0, "max_tokens": 40, "stop": ("\n",), "template": False}, id="as it stands"),
        pytest.param({"apply_chat_template": True}, {"template": True}, id="template"),
        pytest.param({"gen_kwargs": {"temperature": 0.7}}, {"temperature": 0.7}, id="temperature samples"),
        pytest.param(
            {"gen_kwargs": {"temperature": 0.7, "do_sample": False}}, {"temperature": 0.7}, id="whatever is said"
        ),
        pytest.param({"gen_kwargs": {"max_tokens": 9, "stop": ["!"]}}, {"max_tokens": 9, "stop": ("!",)}, id="names"),
        pytest.param({"max_tokens": 7}, {"max_tokens": 7}, id="tokens"),
    ],
)
def test_requests_are_as_the_run_wants_them(folder: Path, options: dict[str, Any], expected: dict[str, Any]):
    model = Adder()
    run(folder / "sums.yaml", model, **options)
    asked = model.requests[0]
    assert {name: getattr(asked, name) for name in expected} == expected


def test_examples_and_system_words_are_turns_of_the_chat(folder: Path):
    model = Adder()
    text = (folder / "sums.yaml").read_text()
    (folder / "shots.yaml").write_text(text.replace("test_split", "fewshot_split: test\ntest_split"))
    run(
        folder / "shots.yaml",
        model,
        apply_chat_template=True,
        fewshot_as_multiturn=True,
        num_fewshot=2,
        system_instruction="Add.",
    )
    roles = [turn.role for turn in model.requests[0].messages]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"]


def test_other_items_are_other_data_and_another_prompt_another_version(folder: Path):
    first = run(folder / "sums.yaml", Adder())
    (folder / "sums.jsonl").write_text('{"question": "1 + 1", "answer": "2"}\n')
    (folder / "sums.yaml").write_text(GENERATE.replace("Q:", "Question:"))
    second = run(folder / "sums.yaml", Adder())
    assert first.result.data.checksum != second.result.data.checksum
    assert first.result.version.split("-")[:3] == second.result.version.split("-")[:3]
    assert first.result.version != second.result.version


def test_choices_are_weighed_by_their_likelihood(folder: Path):
    outcome = run(folder / "choices.yaml", Letters())
    assert (outcome.result.metrics["acc,none"], outcome.result.metrics["acc_norm,none"]) == (1.0, 1.0)
    assert [(sample.extracted, sample.gold) for sample in outcome.samples] == [
        ("blue", "0"),
        ("white", "1"),
        ("green", "1"),
    ]
    assert [estimate.metric for estimate in outcome.result.estimates if estimate.headline] == ["acc"]


def test_perplexity_is_the_hand_calculation(folder: Path):
    model = Letters()
    outcome = run(folder / "texts.yaml", model)
    total = sum(-model._total(text) for text in TEXTS)
    assert outcome.result.metrics["word_perplexity,none"] == pytest.approx(math.exp(total / 8))
    assert outcome.result.metrics["bits_per_byte,none"] == pytest.approx(total / sum(map(len, TEXTS)) / math.log(2))
    assert not any(estimate.higher_is_better for estimate in outcome.result.estimates)
    assert outcome.samples[1].score == pytest.approx(-model._total("a dog") / 2)


def test_likelihoods_are_recalled_and_a_killed_run_goes_on(folder: Path):
    store, model = Kept(), Letters()
    model.dies_after = 3
    with pytest.raises(ModelUnavailable):
        run(folder / "choices.yaml", model, store)
    assert len(store.rows) == 3
    model.dies_after, model.asked = 10**9, 0
    outcome = run(folder / "choices.yaml", model, store)
    assert model.asked == 6 - 3
    assert (outcome.result.usage.calls, outcome.result.usage.recalled) == (6, 3)
    assert all(key in store.rows for sample in outcome.samples for key in sample.keys)


@pytest.mark.slow
def test_a_group_gives_its_own_figure_and_those_of_its_parts(folder: Path):
    outcome = run("own_all", Letters(), include_path=folder)
    headline = [estimate for estimate in outcome.result.estimates if estimate.headline]
    assert [(estimate.metric, estimate.part, estimate.value) for estimate in headline] == [("acc", "", 1.0)]
    assert {estimate.part for estimate in outcome.result.estimates} == {"", "task=own_choices", "task=own_texts"}
    assert [sample.item for sample in outcome.samples][:1] == ["own_choices/0"]


def test_a_template_is_left_out_where_likelihoods_are_wanted_and_that_is_said(folder: Path):
    outcome = run(folder / "choices.yaml", Letters(), apply_chat_template=True)
    assert outcome.result.settings["apply_chat_template"] is False
    assert any("no chat template" in note for note in outcome.result.notes)


def test_a_backend_without_likelihoods_is_refused_before_anything_is_asked(folder: Path):
    model = Adder()
    with pytest.raises(NeedsLogLikelihood, match=r"own_choices wants log-probabilities .* adder:1"):
        run(folder / "choices.yaml", model)
    assert model.requests == []


@pytest.mark.parametrize(
    ("error", "outcomes", "note"),
    [
        (TransientModelError("busy"), [], "1 failed"),
        (ContextOverflow("9 of 4"), ["too_long"], "1 too long (2: 9 of 4)"),
        (RequestRefused("filtered"), ["refused"], "1 refused (2: filtered)"),
    ],
)
def test_what_got_no_answer_is_in_no_figure_of_the_harness(
    folder: Path, error: Exception, outcomes: list[str], note: str
) -> None:
    model = Adder()

    def fail(prompt: str) -> None:
        if "9 + 9" in prompt:
            raise error

    model.before = fail
    outcome = run(folder / "sums.yaml", model)
    metrics, counts = outcome.result.metrics, outcome.result.counts
    assert (metrics["exact_match,last-number"], metrics["coverage"], metrics["bounds"]) == (1.0, 0.75, [0.75, 1.0])
    assert [sample.outcome for sample in outcome.samples if sample.score is None] == outcomes
    assert (counts.scored, outcome.result.estimates[0].n) == (3, 3)
    assert note in outcome.result.notes[0]


def test_chosen_items_have_their_own_answers_and_none_at_all_is_no_score(folder: Path) -> None:
    chosen = run(folder / "sums.yaml", Adder(), samples={"own_sums": [1, 3]})
    assert [(response.item, response.text) for response in chosen.responses] == [("1", "It is 7"), ("3", "It is 6")]

    def refuse(prompt: str) -> None:
        raise RequestRefused(prompt)

    model = Adder()
    model.before = refuse
    refused = run(folder / "sums.yaml", model)
    assert (refused.result.estimates, refused.result.counts.refused) == ((), 4)


@pytest.mark.slow
def test_a_task_whose_data_is_out_of_reach_says_what_to_do():
    with pytest.raises(DataMissing, match=r"hellaswag cannot be loaded .* make its data local"):
        run("hellaswag", Letters())


def test_an_unknown_task_names_those_that_are_near():
    with pytest.raises(UnknownTask, match="hellaswag"):
        run("hellaswagg", Letters())


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        pytest.param("task: [oops\n  x: 1", BenchmarkUnusable, r"broken\.yaml:2", id="yaml"),
        pytest.param("task: a\noutput_type: dance\ndataset_path: json", BenchmarkUnusable, "dance", id="kind"),
        pytest.param(GENERATE.replace("sums.jsonl", "gone.jsonl"), DataMissing, "gone.jsonl", id="file"),
        pytest.param(
            "task: a\ndataset_path: nobody/nothing\noutput_type: generate_until", DataMissing, "local", id="hub"
        ),
    ],
)
def test_what_cannot_be_loaded_is_named(folder: Path, text: str, error: type[Exception], said: str):
    (folder / "broken.yaml").write_text(text)
    with pytest.raises(error, match=said):
        run(folder / "broken.yaml", Letters())


def test_the_harness_leaves_no_trace(folder: Path, capfd: pytest.CaptureFixture[str]):
    environment, level = dict(os.environ), logging.getLogger("lm_eval").level
    run(folder / "texts.yaml", Letters())
    assert dict(os.environ) == environment
    assert logging.getLogger("lm_eval").level == level
    assert capfd.readouterr() == ("", "")


def test_ctrl_c_ends_a_run(folder: Path):
    model, waiting, first = Adder(), threading.get_ident(), iter([signal.SIGINT])

    def interrupt(prompt: str) -> None:
        for each in first:
            signal.pthread_kill(waiting, each)

    model.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        run(folder / "sums.yaml", model)


def test_tasks_are_listed_with_ones_own_and_from_the_cache(folder: Path, tmp_path: Path):
    cache = tmp_path / "names"
    names = list_tasks(folder, cache_folder=cache)
    assert {"own_sums", "own_all", "hellaswag", "mmlu", "arc_challenge"} <= set(names)
    [file] = cache.iterdir()
    file.write_text('["from_the_cache"]')
    assert list_tasks(None, cache_folder=cache) == ["from_the_cache"]


@pytest.mark.slow
def test_a_real_model_answers_and_weighs(folder: Path, tmp_path: Path):
    from models.backends import open_backend
    from tests.models.tiny import make_tiny_model

    args: dict[str, Any] = {"pretrained": str(make_tiny_model(tmp_path / "tiny"))}
    model = open_backend("hf", name=None, args=args, base_url=None, api_key=None, timeout_s=60)
    chosen, written = run(folder / "choices.yaml", model), run(folder / "sums.yaml", model, limit=2)
    assert chosen.result.counts.scored == 3
    assert len(written.responses) == 2


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


@pytest.mark.usefixtures("here")
def test_what_the_harness_finds_is_kept_like_all_else(folder: Path) -> None:
    release_models()
    asking = Asking(ModelSpec(backend="scripted"))
    settings = RunSettings(apply_chat_template=False)
    responses = optional_responses()
    outcome = evaluate_harness(
        str(folder / "sums.yaml"), model=asking.chat, ask_all=asking.ask_all, responses=responses, settings=settings
    )
    result = outcome.result
    assert (result.task, result.family, result.counts.items, asking.usage.calls) == ("sums", "pretrain", 4, 4)
    # it says the question again, whose last number is the second summand: none is the sum
    assert [one.score for one in outcome.samples] == [0, 0, 0, 0]
    assert outcome.responses[0].text == "You said: Q: 2 + 2"
    assert [one.id for one in outcome.items] == [one.item for one in outcome.samples]
    assert build_rows(report(result), result, lambda: ()).dataset.name == "sums"
