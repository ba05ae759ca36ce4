"""A suite file: what it says, from which folder its paths are seen, and which line is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.running.nightly_plan import plan_of
from tasks.nightly.night_records import SuiteUnusable
from tasks.nightly.suite import NightBudget, Suite, read_suite

SUITE = """\
output: out
tasks: [MATH500, own.yaml]
settings: {data_dir: data, limit: 5}
models:
  - model: scripted
    model_name: one
    model_args: rules=one.json
  - label: two
    model: replay
    model_args: {path: recorded}
    annotator_model: scripted:judge.json
    tasks: AIME24,AIME25
    limit: 7
regression: {fail: true}
budget: {cost: 5, tokens: 2000000}
"""


def read(folder: Path, text: str) -> Suite:
    file = folder / "nightly.yaml"
    file.write_text(text)
    return read_suite(file)


def test_models_have_what_all_share_and_their_own_goes_before_it(tmp_path: Path) -> None:
    one, two = read(tmp_path, SUITE).models
    assert (one.label, two.label) == ("one", "two")
    assert (one.flags["limit"], two.flags["limit"]) == (5, 7)
    assert one.flags["tasks"] == ["MATH500", str(tmp_path / "own.yaml")]
    assert two.flags["tasks"] == ["AIME24", "AIME25"]


def test_paths_are_seen_from_the_folder_of_the_suite(tmp_path: Path) -> None:
    suite = read(tmp_path, SUITE)
    one, two = suite.models
    assert (suite.name, suite.output) == ("nightly", tmp_path / "out")
    assert one.flags["data_dir"] == str(tmp_path / "data")
    assert one.flags["model_args"] == {"rules": str(tmp_path / "one.json")}
    assert two.flags["model_args"] == {"path": str(tmp_path / "recorded")}
    assert two.flags["annotator_model"] == f"scripted:{tmp_path / 'judge.json'}"


def test_an_index_parts_what_builds_it_from_what_measures_it(tmp_path: Path) -> None:
    suite = read(tmp_path, "index: {documents: docs, index: idx, questions: q.jsonl, strategy: bm25, chunk_chars: 500}")
    assert suite.index
    assert suite.index.build == {
        "documents": str(tmp_path / "docs"),
        "index": str(tmp_path / "idx"),
        "chunk_chars": 500,
    }
    assert (suite.index.questions, suite.index.strategy) == (tmp_path / "q.jsonl", "bm25")


def test_an_index_may_be_in_an_engine(tmp_path: Path) -> None:
    url = "postgresql://me@host/data?schema=night"
    suite = read(tmp_path, f'index: {{documents: docs, index: "{url}"}}')
    assert suite.index
    assert suite.index.build["index"] == url
    with pytest.raises(SuiteUnusable, match=r"line 1: index\.index: .* PGPASSWORD") as refused:
        read(tmp_path, f'index: {{documents: docs, index: "{url.replace("me@", "me:hush@")}"}}')
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("models: [", "line 1: not YAML"),
        ("output: x", "line 1: nothing to do"),
        ("output: x\nmodel: []", "line 2: model: Extra inputs"),
        ("output: x\njudge: labels.jsonl", "line 2: judge was removed: nights no longer ask a judge"),
        ("regression:\n  least_drop: 1", "line 2: regression.least_drop was removed: what is beyond noise counts"),
        ("tasks: [A]\nnights: 1\nmodels: [{model: hf}]", "line 2: nights:"),
        ("tasks: [A]\nmodels:\n  - model_name: x", "line 3: no `model`"),
        ("tasks: [A]\nmodels:\n  - model: hf\n    temprature: 1", "line 4: 'temprature' is not known; give annotator_"),
        (
            "tasks: [A]\nmodels:\n  - model: hf\n    cluster: dask",
            "line 4: eval run --cluster was removed: TRIVET_TASK_RUNNER",
        ),
        ("tasks: [A]\nmodels:\n  - model: hf\n    save: file", "line 4: save: a suite keeps its results itself"),
        (
            "tasks: [A]\nsettings:\n  unsafe_code: true\nmodels: [{model: hf}]",
            "line 3: unsafe_code: type --unsafe-code",
        ),
        ("tasks: [A]\nmodels:\n  - model: hf\n    overwrite: 1", "line 4: overwrite: expected true or false"),
        ("index: {documents: a}", "line 1: index: `index` is missing"),
        ("index:\n  documents: a\n  index: b\n  strategy: psychic", "line 4: index.strategy"),
        ("selector: none.yaml", "line 1: selector: there is no file"),
        ("tasks: [A]\nmodels: [{model: hf}]\nregression:\n  fail: perhaps", "line 4: regression.fail"),
    ],
    ids=lambda value: value.splitlines()[-1] if "\n" in value else None,
)
def test_what_is_wrong_is_named_with_its_line(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SuiteUnusable) as refused:
        plan_of(read(tmp_path, text))
    assert f"{tmp_path / 'nightly.yaml'}, {said}" in str(refused.value)


@pytest.mark.parametrize(
    "flag", ["model_args: {api_key: hush}", "annotator_args: api_key=hush", "base_url: http://me:hush@127.0.0.1/v1"]
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(flag: str, tmp_path: Path) -> None:
    with pytest.raises(SuiteUnusable, match=r"line 4: \w+ holds a key or a password") as refused:
        read(tmp_path, f"tasks: [A]\nmodels:\n  - model: openai\n    {flag}\n")
    assert "hush" not in str(refused.value)


def test_a_value_that_no_run_takes_is_named_with_its_line(tmp_path: Path) -> None:

    suite = read(tmp_path, "tasks: [AIME24]\nsettings:\n  seed: 1,2\nmodels:\n  - model: hf")
    with pytest.raises(SuiteUnusable, match=r"nightly\.yaml, line 3: hf: seed 1,2: 2 numbers"):
        plan_of(suite)


def test_the_parameters_of_a_selector_are_seen_from_its_own_file(tmp_path: Path) -> None:

    (tmp_path / "lever").mkdir()
    (tmp_path / "lever" / "small.yaml").write_text("digits: {judge_steps: 60}\nstart: {rl_data: rl.json}")
    selector = plan_of(read(tmp_path, "selector: lever/small.yaml\noutput: out")).selector
    assert selector
    assert selector.digits.judge_steps == 60
    assert selector.start.rl_data == tmp_path / "lever" / "rl.json"
    assert selector.results == tmp_path / "out" / "selector"


def test_a_budget_says_what_is_over_it() -> None:
    budget = NightBudget(cost=5, tokens=1_000_000)
    assert budget.exceeded(cost=5, tokens=1_000_000) is None
    assert budget.exceeded(cost=6.2, tokens=10) == "over its budget: 6.20 of 5.00 in money spent so far"
    assert "2,000,000 of 1,000,000 tokens" in str(budget.exceeded(cost=0, tokens=2_000_000))
    assert NightBudget().exceeded(cost=1e6, tokens=10**9) is None
