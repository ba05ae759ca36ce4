"""The lever on questions in OK-VQA's files: spoilt pictures, models of a folder, an endpoint, files of Lever-Plus."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from PIL import Image

from tests.command import Done, run_here
from tests.lever.vqa_folders import annotation, photograph, question, write_files
from tests.models.server import MODEL, Server, error_reply, prompt_of, serving

pytestmark = [pytest.mark.engine, pytest.mark.postgres, pytest.mark.slow]

SMALL = (
    *("--set=dataset.train_queries=12", "--set=dataset.validation=4", "--set=dataset.test=6", "--set=pool_size=5"),
    *("--set=beams.queries=6", "--set=beams.candidates=3", "--set=sft.epochs=1", "--set=rce.epochs=1"),
    *("--set=grpo.rounds=2", "--set=grpo.draws=4", "--set=oracle.most_judgments=40"),
    *("--set=evaluated_shots=[1, 2]", "--device", "cpu", "--set=save=file", "--json"),
)
SELECTORS = {
    *("zero_shot", "random", "similarity", "similarity_pool", "TextSimSampler", "ImgSimSampler", "MixSampler"),
    *("sft", "rce", "grpo", "oracle"),
}
SAID = ("yes", "no", "red", "two", "dog")
SIDEWAYS, ORIENTATION = 6, 0x0112


class Folder(NamedTuple):
    """Official files, and models with random weights."""

    data: Path
    clip: Path
    qwen: Path

    def run(self, stage: str, results: Path, *options: object, judge: str | None = None) -> Done:
        named = ("--dataset", "okvqa_local", "--data-dir", self.data, "--set", f"results={results}")
        models = ("--judge", judge or f"hf:{self.qwen}", "--set", f"encoder={self.clip}")
        return run_here("lever", stage, *named, *models, *SMALL, *options)


def write_split(folder: Path, split: str, images: range) -> None:
    """Two questions for each picture: of the second it is cut short, the third has none, the fourth lies on its side.

    Nobody answered the last question.
    """
    ids = [(image * 10 + number, image) for image in images for number in range(2)]
    answered = [annotation(id, image, *[SAID[id % 5]] * 7, *["no"] * 3) for id, image in ids]
    answered[-1]["answers"] = []
    write_files(
        folder / f"OpenEnded_mscoco_{split}2014_questions.json",
        folder / f"mscoco_{split}2014_annotations.json",
        [question(id, image, f"What is {id % 7}?") for id, image in ids],
        answered,
    )
    (folder / f"{split}2014").mkdir(parents=True, exist_ok=True)
    exif = Image.Exif()
    exif[ORIENTATION] = SIDEWAYS
    for place, image in enumerate(images):
        data = photograph(image, exif=exif if place == 3 else None)
        if place != 2:
            path = folder / f"{split}2014" / f"COCO_{split}2014_{image:012d}.jpg"
            path.write_bytes(data[: len(data) // 2] if place == 1 else data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    from models.local import release_model
    from tests.models.tiny_vision import make_tiny_clip, make_tiny_qwen

    root = tmp_path_factory.mktemp("okvqa")
    write_split(root / "data", "train", range(1000, 1020))
    write_split(root / "data", "val", range(5000, 5012))
    yield Folder(root / "data", make_tiny_clip(root / "clip"), make_tiny_qwen(root / "qwen"))
    release_model()


@pytest.fixture(scope="module")
def whole(folder: Folder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a run with the judge of this process."""
    results = tmp_path_factory.mktemp("whole")
    done = folder.run("run", results)
    assert done.code == 0, done.stderr
    assert done.json.keys() >= SELECTORS
    return results / "okvqa"


@pytest.fixture
def endpoint() -> Iterator[Server]:
    """A model that answers by the length of what it is asked."""
    from flows.running.settings import configure_steps
    from tasks.resources import configure, resources

    configure_steps()

    with serving() as running:
        running.answer = lambda body: SAID[len(prompt_of(body)) % 5]
        here = resources()
        configure(replace(here, openai_base_url=running.base_url))
        yield running
        configure(here)


@pytest.fixture
def beams(whole: Path) -> Path:
    [found] = (whole / "generated_data").glob("vqa-*.json")
    return found


def rl_data(results: Path) -> dict[str, Any]:
    return json.loads((results / "okvqa" / "generated_data" / "rl_data_RetrievalSampler.json").read_text())


def statuses(results: Path) -> Counter[str]:
    return Counter(one["status"] for query in rl_data(results).values() for one in query["pointer_candidates"])


def bodies(server: Server) -> Counter[str]:
    return Counter(json.dumps(one["body"], sort_keys=True) for one in server.requests if one["body"])


def test_what_cannot_be_shown_or_scored_is_in_no_file(whole: Path) -> None:
    data = rl_data(whole.parent)
    named = set(data).union(*(query["candidate_pool_ids"] for query in data.values()))
    assert not named & {"10010", "10011", "10020", "10021", "10191"}
    assert named <= {str(image * 10 + number) for image in range(1000, 1020) for number in range(2)}
    assert len(data) == 12


@pytest.mark.parametrize("style", ["completion", "chat"])
def test_an_endpoint_judges_with_beams_of_a_file(
    folder: Folder, endpoint: Server, beams: Path, tmp_path: Path, style: str
) -> None:
    options = ("--set", f"start.beam_data={beams}", "--set", f"prompts.style={style}")
    first = folder.run("run", tmp_path, *options, judge=f"openai:{MODEL}")
    assert first.code == 0, first.stderr
    assert first.json.keys() >= SELECTORS
    asked = bodies(endpoint)
    assert set(asked.values()) == {1}
    two_shots = max((one["body"] for one in endpoint.requests), key=lambda body: len(json.dumps(body)))
    assert [turn["role"] for turn in two_shots["messages"]] == (
        ["user"] if style == "completion" else ["user", "assistant", "user", "assistant", "user"]
    )
    pictures = [part for turn in two_shots["messages"] for part in turn["content"] if part.__class__ is dict]
    assert sum(part["type"] == "image_url" for part in pictures) == 3

    again = folder.run("run", tmp_path, *options, judge=f"openai:{MODEL}")
    assert {name: again.json[name] for name in SELECTORS} == {name: first.json[name] for name in SELECTORS}
    assert bodies(endpoint) == asked

    endpoint.probes = lambda place: f"other weights, {place}"
    other = folder.run("run", tmp_path, *options, judge=f"openai:{MODEL}")
    assert any("weights changed since" in note for note in other.json["notes"])
    assert bodies(endpoint)[next(iter(asked))] == 2, "what other weights judged is judged again"


def test_an_endpoint_that_is_away_is_asked_again_for_the_rest_alone(
    folder: Folder, endpoint: Server, whole: Path, tmp_path: Path
) -> None:
    answered: Counter[str] = Counter()

    def dies(path: str, body: dict[str, Any]) -> Any:
        if answered.total() < 30:
            answered[json.dumps(body, sort_keys=True)] += 1
            return None
        return error_reply(503, "overloaded", headers={"Retry-After": "0"})

    selector = whole / "model_cpk" / "v2" / "sft_RetrievalSampler.safetensors"
    options = (f"--set=start.sft_checkpoint={selector}", "--set=first_seed=7", "--set=prompts.latest_pick=first")
    endpoint.misbehave = dies
    broken = folder.run("run", tmp_path, "--until", "rl-data", *options, judge=f"openai:{MODEL}")
    assert broken.code == 1
    assert "overloaded" in broken.stderr
    assert "run the same command again" in broken.stderr
    left = statuses(tmp_path)
    assert left["judged"] >= 1
    assert left["eval_failed"] >= 1

    endpoint.misbehave = None
    endpoint.requests.clear()
    mended = folder.run("run", tmp_path, "--until", "rl-data", *options, judge=f"openai:{MODEL}")
    assert mended.code == 0, mended.stderr
    assert set(statuses(tmp_path)) == {"judged"}
    assert not bodies(endpoint).keys() & answered.keys()
    assert set(bodies(endpoint).values()) == {1}


def test_an_endpoint_without_log_probabilities_is_learnt_from_by_its_answers(
    folder: Folder, endpoint: Server, tmp_path: Path
) -> None:
    done = folder.run("run", tmp_path, judge=f"openai:{MODEL}")
    assert done.code == 0, done.stderr
    assert done.json["stages"] == ["embed", "pools", "beams", "sft", "rl-data", "rce", "grpo", "evaluate"]
    assert any("SFT imitates the nearest candidates" in note for note in done.json["notes"])
    assert (
        done.json["selected"]["accuracy"] == done.json[done.json["summary"]["verdicts"][0]["rule"]["name"]]["accuracy"]
    )


def as_lever_plus_has_them(beams: Path, folder: Path, name: Callable[[str], int], *, old: bool) -> Path:
    """Beam data whose questions are named by `name`, under the seed's own file name."""
    written: dict[str, Any] = {}
    for query, found in json.loads(beams.read_text()).items():
        pool = [name(id) for id in found["candidate_pool_ids"]]
        if old:
            lists = [[*(pool[at] for at in one["pointer"]), name(query)] for one in found["pointer_candidates"]]
            scores = [one["beam_score"] for one in found["pointer_candidates"]]
            written[str(name(query))] = {"id_list": lists, "score_list": scores}
        else:
            written[str(name(query))] = found | {"candidate_pool_ids": pool}
    path = folder / (
        "vqa-okvqa_local-Qwen2_5-VL-3B-Instruct-RetrievalSampler-scorer:infoscore-construct_order:left"
        "-beam_size:5-max_shot:2-candidate_num:64-sample_num:800.json"
    )
    path.write_text(json.dumps(written))
    return path


@pytest.mark.parametrize("old", [True, False], ids=["old", "new"])
@pytest.mark.parametrize("numbers", [True, False], ids=["numbers", "ids"])
def test_the_script_of_the_seed_runs_on_its_own_files(
    folder: Folder, whole: Path, beams: Path, tmp_path: Path, old: bool, numbers: bool
) -> None:
    import torch

    from models.pointer import PointerConfig
    from tasks.lever.data.embeddings import read_embeddings
    from tests.lever.seed_files import lightning, passing_class, save, seed_state

    asked = json.loads((folder.data / "OpenEnded_mscoco_train2014_questions.json").read_text())["questions"]
    number = {str(one["question_id"]): place for place, one in enumerate(asked)}
    seed_beams = as_lever_plus_has_them(beams, tmp_path, number.__getitem__ if numbers else int, old=old)
    with passing_class("gone_config", "DictConfig") as kind:
        state = seed_state(PointerConfig(embedding_dim=16))
        checkpoint = save(lightning(state, hyper_parameters={"cfg": kind()}), tmp_path / "x.ckpt")
    banks = [read_embeddings(path) for path in (whole / "cache").glob("*_embeddings.pt")]
    vectors = {id: vector for bank in banks for id, vector in zip(bank.ids, bank.vectors, strict=True)}
    if old:
        torch.save(vectors, tmp_path / "q.pt")
    else:
        torch.save(torch.stack(list(vectors.values())), tmp_path / "q.pt")
        (tmp_path / "q.json").write_text(json.dumps(list(vectors)))
    flags = ("--sft_ckpt", checkpoint, "--beam_data", seed_beams, "--output_path", tmp_path / "rl.json")
    embeddings = ("--query_emb", tmp_path / "q.pt", "--cand_emb", tmp_path / "q.pt")
    done = folder.run("rl-data", tmp_path / "results", *flags, *embeddings, "--sampler", "rand_sampler")
    assert done.code == 0, done.stderr
    written, told = json.loads((tmp_path / "rl.json").read_text()), json.loads(beams.read_text())
    assert set(written) == set(told)
    if not old:
        assert all(written[query]["candidate_pool_ids"] == one["candidate_pool_ids"] for query, one in told.items())
    assert any("by their numbers" in note for note in done.json["notes"]) == numbers
