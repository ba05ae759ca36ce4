"""A run as others read it."""

from __future__ import annotations

from datetime import UTC, datetime

from storage.evaluated import Evaluated as Rows
from tasks.lever.learning.lever_results import LeverReport, database_rows, lever_plus_json, render_markdown
from tasks.lever.learning.selector_comparison import summarise
from tasks.lever.lever_records import Dataset, Evaluated, Outcome, SelectorResult
from tests.lever.outcomes import CONDITIONS, seed_of
from tests.lever.small_dataset import dataset, item, png

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEY = "c" * 64
TEST = dataset(
    [], test=[item(f"q{number}", picture=png(number), question=f"how many {number}?") for number in range(4)]
)
SEEDS = [
    seed_of(3, {"random": [0, 0, 0, 1.0], "similarity": [0, 1.0, 0, 0], "grpo": [1.0, 1.0, 0, 1.0]}),
    seed_of(4, {"random": [0, 0, 0, 0], "similarity": [0, 1.0, 0, 0], "grpo": [1.0, 1.0, None, 0]}),
]


def test_the_seed_s_json_has_an_entry_for_each_selector_with_its_shots() -> None:
    one = seed_of(0, {"grpo": [1.0, 0.0]})
    more = [one.results[0], one.results[0].model_copy(update={"shots": 1, "selector": "random"})]
    again = one.results[0].model_copy(update={"shots": 4})
    written = lever_plus_json(summarise([one.model_copy(update={"results": (*more, again)})]))
    info = "RandSampler-candidate_num:32-scripted-test_data_num=2-seeds=0"
    assert written == {
        f"digits-random-{info}": {"shot_num=1": 0.5},
        f"digits-GRPO-{info}": {"shot_num=2": 0.5, "shot_num=4": 0.5},
    }


def test_the_words_tell_figures_gains_and_what_is_missing() -> None:
    told = render_markdown(summarise(SEEDS))
    assert "# digits: 2 of 32 candidates are shown" in told
    assert "| demonstrations by | 2 shots | 95 % interval |" in told
    assert "| similarity | 0.250 | " in told
    # .75 - .25 in one seed; in the other, over the three queries with an answer, 2/3 - 1/3
    assert "- grpo − similarity: +0.417  (" in told
    assert "answers that the judge did not give, and that are in no mean: 1" in told


def rows(of: Dataset = TEST, seeds: list[Evaluated] = SEEDS, id: str = "r1") -> Rows:
    report = LeverReport(
        run=id,
        started_at=NOON,
        ended_at=NOON,
        version="0.1.0",
        git_commit=None,
        environment={},
        config={"reward": "hard", "device": "cpu"},
        stages=(),
        summary=summarise(seeds),
    )
    return database_rows(report, of, lambda: seeds)


def test_each_figure_and_gain_is_a_row_with_its_interval() -> None:
    results = {(one.metric, one.part): one for one in rows().results}
    assert {metric for metric, _ in results} == {
        *(f"accuracy.{name}" for name in ("random", "similarity", "grpo")),
        "gain.grpo-similarity",
        "gain.similarity-random",
    }
    gain = results["gain.grpo-similarity", "shots=2"]
    assert gain.low is not None
    assert gain.high is not None
    assert gain.low <= gain.value <= gain.high
    assert [one.metric for one in rows().results if one.headline] == ["accuracy.grpo"]


def test_each_question_and_seed_is_a_sample_with_every_choice() -> None:
    outcome = Outcome(query="q0", pointer=(5, 2), shown=("a", "b"), answer="4", accuracy=1.0, correct=1, key=KEY)
    results = (
        SelectorResult(selector="grpo", shots=2, outcomes=(outcome,)),
        SelectorResult(
            selector="random", shots=2, outcomes=(outcome.model_copy(update={"accuracy": 0.3, "correct": 0}),)
        ),
    )
    made = rows(seeds=[Evaluated(conditions=CONDITIONS, seed=7, results=results)]).more_samples
    assert made
    (sample,) = made()
    assert (sample.item, sample.repeat, sample.score, sample.extracted, sample.gold) == ("q0", 0, 1.0, "4", "yes")
    assert sample.values == {"grpo@2": 1.0, "random@2": 0.3}
    assert sample.keys == (KEY,)
    assert sample.detail["seed"] == 7
    choices = sample.detail["choices"]
    assert isinstance(choices, dict)
    assert choices["grpo@2"] == {"pointer": [5, 2], "shown": ["a", "b"], "answer": "4", "accuracy": 1.0, "failed": None}
