"""The lever as a flow on a small CPU world: each stage once, files where users look, everything found again."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from storage.files import write
from tests.command import Done, run_here
from tests.drills.telling import SMALL, count_questions
from tests.engine.test_why import walk

pytestmark = [pytest.mark.engine, pytest.mark.postgres, pytest.mark.slow]

SELECTORS = {
    *("zero_shot", "random", "similarity", "mmr", "distinct_questions", "dpp", "similarity_pool"),
    *("TextSimSampler", "ImgSimSampler", "MixSampler"),
    *("sft", "rce", "grpo", "selected", "oracle"),
}


OWN = ("--set", "digits.judge_steps=59")
"""Makes it a judge that no other test of this home has asked."""


class World:
    """A small world that was run once; other tests go on from its files."""

    def __init__(self, folder: Path) -> None:
        self.results = folder / "results"
        self.questions = folder / "questions"
        self.first = self.run("run")

    def run(self, stage: str, *options: object, results: Path | None = None) -> Done:
        until = () if stage == "run" else ("--set", f"until={stage}")
        return run_here("lever", "run", *SMALL, *OWN, *until, "--results", results or self.results, "--json", *options)

    @property
    def asked(self) -> Counter[str]:
        return Counter(self.questions.read_text().split())

    @property
    def made(self) -> Path:
        return self.results / "digits"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    from models.local import release_model
    from tasks.lever.digits.digits_judge import DigitsJudge

    folder, ask = tmp_path_factory.mktemp("lever"), DigitsJudge.complete_many
    count_questions(folder / "questions")
    yield World(folder)
    DigitsJudge.complete_many = ask
    release_model()


def test_a_run_tells_the_accuracy_of_every_selector(world: World) -> None:
    assert world.first.code == 0, world.first.stderr
    told = world.first.json
    assert told.keys() >= SELECTORS
    assert all(0 <= told[name]["accuracy"] <= 1 for name in SELECTORS)
    assert told["oracle"]["accuracy"] >= max(told[name]["accuracy"] for name in SELECTORS)
    assert told["summary"]["headline"]["better"] == "grpo"
    rules = SELECTORS - {"zero_shot", "random", "sft", "rce", "grpo", "selected", "oracle"}
    strongest = max(told[name]["accuracy"] for name in rules)
    assert told[told["summary"]["headline"]["worse"]]["accuracy"] == strongest
    [verdict] = told["summary"]["verdicts"]
    assert told["selected"] == told[verdict["rule"]["name"]]
    assert "20 validation queries are too few to tell whether grpo gains anything" in verdict["description"]
    assert told["stages"] == ["embed", "pools", "beams", "sft", "rl-data", "rce", "grpo", "evaluate"]


def test_each_hop_from_a_figure_to_the_judge_is_told(world: World) -> None:
    [tree] = run_here("why", world.first.json["run"], "--json").json["origins"]
    assert tree["step"]["step"] == "tasks.lever.steps.write_database"
    [evaluated] = [one for one in tree["sources"] if one["what"] == "evaluated"]
    assert evaluated["key"] == world.first.json["seeds"][0]["evaluated"]["digest"]
    assert evaluated["sources"][0]["step"]["step"] == "tasks.lever.steps.train_grpo"
    made = {one["step"]["step"].rpartition(".")[2] for one in walk(tree) if one["step"]}
    assert {"train_rce", "train_sft", "generate_rl_data", "search_beams", "build_pools", "export_embeddings"} <= made
    assert {"train_digits_judge", "read_dataset"} <= made


def test_files_lie_where_the_seed_has_them(world: World) -> None:
    made = {str(path.relative_to(world.made)) for path in world.made.rglob("*") if path.is_file()}
    beams = (
        "vqa-digits-digits-RetrievalSampler-scorer:infoscore-construct_order:left-beam_size:5-max_shot:2"
        "-candidate_num:8-sample_num:20.json"
    )
    assert {
        "cache/query_embeddings.pt",
        "cache/candidate_embeddings.pt",
        "cache/validation_embeddings.pt",
        "cache/test_embeddings.pt",
        "cache/candidate_embeddings.images.pt",
        "cache/query_embeddings.texts.pt",
        f"generated_data/{beams}",
        "generated_data/rl_data_RetrievalSampler.json",
        "model_cpk/v2/sft_RetrievalSampler.safetensors",
        "model_cpk/v3/rce_RetrievalSampler.safetensors",
        "model_cpk/v3/grpo_RetrievalSampler.safetensors",
        "model_cpk/v3/grpo_RetrievalSampler.card.json",
        "selectors/accuracy.json",
        "selectors/accuracy.png",
        "selectors/curves.png",
    } <= made
    accuracy = json.loads((world.made / "selectors" / "accuracy.json").read_text())
    [grpo] = [value for name, value in accuracy.items() if "-GRPO-" in name]
    assert grpo["shot_num=2"] == world.first.json["grpo"]["accuracy"]
    [zero] = [value for name, value in accuracy.items() if "-zero_shot-" in name]
    assert zero == {"shot_num=0": world.first.json["zero_shot"]["accuracy"]}
    assert set(grpo) == {f"shot_num={shots}" for shots in (1, 2, 3, 4)}


def test_a_second_run_asks_nothing_and_says_the_same_on_another_budget_and_device(world: World) -> None:
    before = world.asked
    again = world.run("run", "--set", "spending.max_calls=0", "--device", "cpu")
    assert again.code == 0, again.stderr
    assert {name: again.json[name] for name in SELECTORS} == {name: world.first.json[name] for name in SELECTORS}
    assert world.asked == before
    assert set(before.values()) == {1}


def test_files_that_are_lost_are_written_again_without_a_question(world: World) -> None:
    before, lost = world.asked, world.made / "generated_data" / "rl_data_RetrievalSampler.json"
    content = lost.read_bytes()
    lost.unlink()
    assert world.run("rl-data").code == 0
    assert lost.read_bytes() == content
    assert world.asked == before


@pytest.mark.parametrize(
    ("stage", "last"), [("embed", "embed"), ("pools", "pools"), ("sft", "sft"), ("rce", "rce")], ids=lambda one: one
)
def test_a_stage_ends_where_it_is_told(world: World, stage: str, last: str) -> None:
    done = world.run(stage)
    assert done.code == 0, done.stderr
    assert done.json["stages"][-1] == last
    assert not SELECTORS & done.json.keys()


@pytest.mark.parametrize("stage", ["sft", "rl-data", "rce", "grpo", "evaluate"])
def test_a_run_can_begin_with_the_files_of_any_stage(world: World, stage: str) -> None:
    done = world.run("run", "--from", stage)
    assert done.code == 0, done.stderr
    assert done.json["grpo"]["accuracy"] == world.first.json["grpo"]["accuracy"]


def test_samples_lead_to_the_answers_that_made_them(world: World) -> None:
    from tasks.resources import evaluations, responses

    run = world.first.json["run"]
    [found] = evaluations().task_results(run)
    headline = next(result for result in found.results if result.headline)
    assert headline.metric == "accuracy.grpo"
    assert headline.value == pytest.approx(world.first.json["grpo"]["accuracy"])
    [first, *_] = evaluations().samples(run, "")
    assert first.keys
    kept = responses().many(first.keys)
    assert set(kept) == set(first.keys)
    choices: Any = first.detail["choices"]
    assert {one["answer"] for one in choices.values()} <= {
        str(one.response["text"]) for one in kept.values() if isinstance(one.response, dict)
    }


def test_a_trained_selector_predicts_from_the_exported_files(world: World) -> None:
    cache = world.made / "cache"
    checkpoint = world.made / "model_cpk" / "v3" / "grpo_RetrievalSampler.safetensors"
    vectors = ("--query_emb", cache / "query_embeddings.pt", "--cand_emb", cache / "candidate_embeddings.pt")
    done = run_here("lever", "predict", checkpoint, *vectors, "--shots", 3, "--json")
    assert done.code == 0, done.stderr
    assert "trained in" not in done.stderr
    assert "validation queries are too few" in done.stderr
    assert len(done.json) == 80
    for query, one in done.json.items():
        assert len(set(one["demonstrations"])) == 3
        assert query not in one["demonstrations"]


def test_a_selector_is_handed_on_with_what_proves_that_it_works_elsewhere(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint, handed = world.made / "model_cpk" / "v3" / "grpo_RetrievalSampler.safetensors", tmp_path / "handed"
    assert run_here("lever", "export", checkpoint, handed).code == 0
    assert {path.name for path in handed.iterdir()} == {"selector.safetensors", "card.json"}
    card = json.loads((handed / "card.json").read_text())
    assert card["results"]["verdicts"][0]["description"] == world.first.json["summary"]["verdicts"][0]["description"]
    scores = {
        score["selector"]: score["accuracy"]["value"] for score in card["results"]["figures"] if score["shots"] == 2
    }
    assert all(scores[name] == world.first.json[name]["accuracy"] for name in ("mmr", "dpp", "grpo", "selected"))
    assert (card["splits"]["test"][0], len(card["choices"])) == (20, 10)
    assert card["judgments"]["rl-data"] == 80 * 14

    monkeypatch.setenv("TRIVET_HOME", str(tmp_path / "elsewhere"))  # where its encoder was never trained
    done = run_here("lever", "predict", handed, "--check")
    assert (done.code, "all 10 anchors have the demonstrations that they had" in done.stderr) == (0, True)
    tower = tmp_path / "judge.safetensors"
    state = {name: weight.flip(0) for name, weight in load_file("tests/samples/lever/judge.safetensors").items()}
    with safe_open("tests/samples/lever/judge.safetensors", "pt") as sample:
        save_file(state, tower, metadata=sample.metadata())
    other = run_here("lever", "predict", handed, "--check", "--embedder", tower)
    assert (other.code, "of 10 anchors of" in other.stderr) == (2, True), other.stderr
    missing = run_here("lever", "predict", handed, "--embedder", "/no/clip,adapters=/no/lora")
    assert "no folder /no/clip with a model" in missing.stderr
    assert "by --embedder, with LoRA weights as CLIP,adapters=FOLDER" in " ".join(missing.stderr.split())
    victim = tmp_path / "victim"
    for changed, said in (
        ({"files": {**card["files"], str(victim): ""}}, "is damaged: file"),
        ({"files": {}}, "not all of their files"),
        ({"choices": {}}, "has no anchors"),
        ({"anchors": {**card["anchors"], "metric": "this.poem"}}, "all 10 anchors"),
    ):  # cards of others
        (handed / "card.json").write_text(json.dumps(card | changed))
        assert said in " ".join(run_here("lever", "predict", handed, "--check").stderr.split())
    assert (victim.exists(), "this" in sys.modules, str(world.made) in json.dumps(card)) == (False, False, False)
    again = run_here("lever", "export", checkpoint, handed)
    assert (again.code, "handed is there already; name a new folder" in again.stderr) == (2, True)
    (handed / "selector.safetensors").write_bytes(
        (world.made / "model_cpk" / "v3" / "rce_RetrievalSampler.safetensors").read_bytes()
    )
    swapped = run_here("lever", "predict", handed, "--check")
    assert (swapped.code, "has other weights than its card card.json names" in swapped.stderr) == (2, True)


def test_a_killed_export_leaves_nothing(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.lever.learning import predicting

    def write_first(path: Path, data: bytes) -> None:
        if path.name == "card.json":
            raise KeyboardInterrupt
        write(path, data)

    monkeypatch.setattr(predicting, "write", write_first)
    with pytest.raises(KeyboardInterrupt):
        predicting.export_selector(
            world.made / "model_cpk" / "v3" / "grpo_RetrievalSampler.safetensors", tmp_path / "x"
        )
    assert not [*tmp_path.iterdir()]


def test_exported_vectors_stand_in_for_the_encoder(world: World, tmp_path: Path) -> None:
    cache = world.made / "cache"
    vectors = [f"--set=start.{name}={cache / name}.pt" for name in ("query_embeddings", "candidate_embeddings")]
    done = world.run("run", *vectors, results=tmp_path)
    assert done.code == 0, done.stderr
    assert done.json["grpo"] == world.first.json["grpo"]
    checked = run_here(
        "lever", "predict", "--check", tmp_path / "digits/model_cpk/v3/grpo_RetrievalSampler.safetensors"
    )
    assert (checked.code, "with vectors from files, by digits" in checked.stderr) == (2, True)


def test_a_checkpoint_is_measured_in_its_own_pools_and_in_others_with_a_word(world: World, tmp_path: Path) -> None:
    trained = [world.made / "model_cpk" / place for place in ("v2/sft", "v3/rce", "v3/grpo")]
    own = [f"{path}_RetrievalSampler.safetensors" for path in trained]
    begun = [f"--set=start.{kind}_checkpoint={own[n]}" for n, kind in enumerate(("sft", "rce", "grpo"))]
    done = world.run("evaluate", *begun, "--set", "pool_size=", results=tmp_path)
    assert done.code == 0, done.stderr
    assert done.json["grpo"] == world.first.json["grpo"]
    assert not [note for note in done.json["notes"] if "trained in" in note]
    asked = world.run("evaluate", *begun, "--sampler", "RandSampler", results=tmp_path)
    assert asked.code == 0, asked.stderr
    [note] = [note for note in asked.json["notes"] if "grpo_RetrievalSampler" in note]
    assert "was trained in pools of 8 by RetrievalSampler" in note
    assert "this run has pools of 8 by RandSampler" in note


def test_several_seeds_are_told_together_and_kept_apart(world: World, tmp_path: Path) -> None:
    done = world.run("run", "--seeds", 2, results=tmp_path)
    assert done.code == 0, done.stderr
    assert done.json["summary"]["seeds"] == [0, 1]
    folders = {path.name for path in (tmp_path / "digits").iterdir()}
    assert {"seed0", "seed1", "cache", "selectors"} <= folders


def test_files_of_one_name_are_kept_apart_and_say_what_they_leave_out(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        answers = [*["yes"] * 8, *[" "] * 4]
        items = [{"id": f"{folder}{at}", "text": f"{folder} {at}", "answers": a} for at, a in enumerate(answers)]
        (tmp_path / folder / "items.jsonl").write_text("\n".join(map(json.dumps, items)))
        own = ("--dataset", tmp_path / folder / "items.jsonl", "--judge", "scripted", "--until", "embed")
        done = run_here("lever", "run", *own, "--results", tmp_path / "results")
        assert done.code == 0, done.stderr
        assert f"4 items were left out ({folder}8: its `answers` or `label` is missing or blank; " in done.stdout
    made = [json.loads(path.read_text())["ids"] for path in tmp_path.glob("results/*/cache/candidate_embeddings.json")]
    assert sorted(ids[0][0] for ids in made) == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--set", "shots=9"), "9 shots from pools of 8"),
        (("--set", "grpo.rounds=many"), "grpo.rounds"),
        (("--set", "nonsense"), "is not NAME=VALUE"),
        (("--sampler", "psychic"), "psychic"),
        (("--judge", "scripted", "--dataset", "okvqa", "--data-dir", "/nowhere"), "/nowhere"),
        (("--set", "start.sft_checkpoint=/nowhere.safetensors"), "/nowhere.safetensors"),
        (("--set", "start.rl_data=/nowhere.json", "--set", "start.sft_checkpoint=/nowhere.safetensors"), "/nowhere"),
    ],
    ids=["shots", "set", "name", "sampler", "data", "checkpoint", "rl-data"],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(world: World, options: tuple[object, ...], said: str) -> None:
    done = world.run("run", *options)
    assert (done.code, done.stdout) == (2, ""), done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_an_encoder_that_is_not_there_is_named_by_its_option(world: World) -> None:
    done = world.run("run", "--set", "encoder=/nowhere")
    assert (done.code, "--set encoder=/nowhere: there is no folder /nowhere with a model" in done.stderr) == (1, True)
