"""What `trivet lever` makes of its flags before anything runs, and how it tells a run that has ended."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from flows.cli.lever_commands import show_report
from flows.running.lever_config import DEFAULTS, read_lever_config
from tasks.lever.learning.lever_results import LeverReport
from tasks.lever.learning.selector_comparison import summarise
from tasks.lever.lever_records import PoolRecipe
from tests.command import run_here
from tests.lever.outcomes import seed_of
from tests.lever.small_dataset import bank


def test_the_names_of_the_seed_are_understood() -> None:
    given = {
        "dataset.name": "okvqa_local",
        "judge": "qwen2.5_vl_3B",
        "sampler": "rand_sampler",
        "start.sft_checkpoint": Path("x.ckpt"),
    }
    config = read_lever_config(given)
    assert config.dataset.name == "okvqa"
    assert config.judge == "hf:Qwen/Qwen2.5-VL-3B-Instruct"
    assert config.sampler == "RandSampler"
    assert (config.encoder, config.pools().size) == ("clip", 64)


def test_pools_are_as_said_else_as_the_checkpoint_s_else_retrieved() -> None:
    usual = read_lever_config({})
    assert usual.pools().description == "pools of 32 by RetrievalSampler (joint + images + texts, 25% others)"
    own = PoolRecipe(sampler="ImgSimSampler", size=16)
    assert usual.pools(own).model_copy(update={"others": 0.0, "modalities": ()}) == own
    assert usual.pools(own.model_copy(update={"size": 0})).size == 32
    said = read_lever_config({"sampler": "RandSampler", "pool_size": 8}, settings=["pool_others=0"])
    assert (said.pools(own).sampler, said.pools(own).size, said.pools(own).others) == ("RandSampler", 8, 0)


def test_one_run_leaves_nothing_to_the_next() -> None:
    before = copy.deepcopy(DEFAULTS)
    assert read_lever_config({"dataset.name": "okvqa", "grpo.draws": 3}).grpo.draws == 3
    assert read_lever_config({"dataset.name": "okvqa"}, settings=["sft.epochs=1"]).grpo.draws == 12
    assert before == DEFAULTS


@pytest.mark.parametrize("name", ["demo", "small"])
def test_the_samples_that_documents_name_can_be_run(name: str) -> None:
    assert read_lever_config({}, file=Path(f"tests/samples/lever/{name}.yaml")).digits.candidates == 1500


def test_flags_go_before_the_file_and_settings_before_flags(tmp_path: Path) -> None:
    path = tmp_path / "lever.yaml"
    path.write_text("shots: 1\npool_size: 20\ngrpo: {rounds: 3, draws: 5}\n")
    config = read_lever_config({"shots": 2}, file=path, settings=["grpo.rounds=7"])
    assert (config.shots, config.pool_size, config.grpo.rounds, config.grpo.draws) == (2, 20, 7, 5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--set", "grpo.draws=1"), "grpo.draws: Input should be greater than or equal to 2 (it is '1')"),
        (("--set", "grpo.round=3"), "grpo.round: Extra inputs"),
        (("--set", "sft.epochs=2", "--set", "sft.epochs.more=3"), "--set sft.epochs.more: epochs has no parts"),
        (
            ("--set", "start.query_embeddings=q.pt"),
            "query_embeddings and candidate_embeddings: give both files, or none",
        ),
        (("--config", "/nowhere.yaml"), "/nowhere.yaml cannot be read ([Errno 2] No such file or directory"),
        (("--set", "shots=40"), "40 shots from pools of 32"),
        (("--set", "vectors=text"), "vectors was removed: leave it out"),
    ],
    ids=["range", "typo", "no parts", "one of two files", "no file", "shots", "a parameter of before"],
)
def test_what_does_not_fit_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], said: str
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")  # nobody is asked so early
    done = run_here("lever", "run", *options)
    assert (done.code, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())
    assert "Value error" not in done.stderr


def told(**changes: Any) -> LeverReport:
    now = datetime.now(UTC)
    return LeverReport(
        run="r", started_at=now, ended_at=now, version="0", git_commit=None, environment={}, config={}, **changes
    )


def test_a_table_has_a_column_for_each_number_of_shots(capsys: pytest.CaptureFixture[str]) -> None:
    found = summarise([seed_of(0, {"random": [0.0, 0.3], "similarity": [0.3, 0.6], "grpo": [1.0, 0.6]})])
    show_report(told(stages=("embed", "evaluate"), summary=found))
    title, header, *rows = capsys.readouterr().out.splitlines()
    assert title == "digits, RandSampler, pools of 32, 1 seed, 2 questions: accuracy"
    assert header.split() == ["demonstrations", "by", "2", "shots", "95", "%", "interval"]
    assert [row.split()[:2] for row in rows[:3]] == [["random", "0.150"], ["similarity", "0.450"], ["grpo", "0.800"]]


def test_answers_that_the_judge_refuses_are_counted_beside_the_accuracies(capsys: pytest.CaptureFixture[str]) -> None:
    found = summarise([seed_of(0, {"similarity": [0.3, None, None], "grpo": [1.0, None, 0.6]})])
    show_report(told(stages=("evaluate",), summary=found))
    assert "answers that the judge did not give, and that are in no mean: 3" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("weight", ["inf", "nan", "-1", "much"])
def test_a_rule_has_a_weight_that_is_a_number(weight: str, tmp_path: Path) -> None:
    for name in ("queries.pt", "candidates.pt"):
        bank({name: [1.0, 0.0] for name in "abc"}).export_pt(tmp_path / name)
    files = "--query-emb", tmp_path / "queries.pt", "--cand-emb", tmp_path / "candidates.pt"
    done = run_here("lever", "predict", f"dpp:{weight}", *files)
    said = f"error: dpp:{weight}: the weight of dpp is a number from 0 on, as in dpp:0.05"
    assert (done.code, done.stderr.strip()) == (2, said)


def test_a_prediction_without_vectors_names_the_files_that_a_run_writes() -> None:
    done = run_here("lever", "predict", "similarity")
    assert (done.code, "results/NAME/cache/{test,candidate}_embeddings.pt" in done.stderr) == (2, True)


def test_notes_and_paths_can_be_copied_whole(capsys: pytest.CaptureFixture[str]) -> None:
    note, path = "a [red] file " + "x" * 200, "results/" + "y" * 200
    show_report(told(stages=("embed",), notes=(note,), files=(path,)))
    assert capsys.readouterr().out.splitlines() == ["done: embed", note, path]
