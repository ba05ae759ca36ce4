"""All pipelines with weights on this disk: what is kept is, token for token, what a bare generate says."""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from models.causal_lm import CausalLM
from models.chats import open_chat
from models.vision_language import HFVision
from storage.responses import StoredResponse
from tasks.calls import response_key
from tests.command import Done, run_here
from tests.lever.vqa_folders import annotation, question, write_files
from tests.models.picture_reader import COLOURS, CORNERS, Bare, make_picture_reader, picture_of
from tests.models.tiny import make_tiny_model
from tests.models.tiny_vision import make_tiny_clip, make_tiny_qwen3

pytestmark = [pytest.mark.engine, pytest.mark.postgres]

SHOWN = (("red", "green", "blue", "yellow"), ("yellow", "yellow", "red", "blue"), ("green", "red", "red", "green"))
"""Colours of the pictures in the document."""
PLAIN = ("--figure", "qwen3_vl_min_edge_energy=0", "--figure", "qwen3_vl_max_tokens=8")
"""Pictures of four colours have few edges; the seed's filter would drop them."""


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that reads pictures of four colours."""
    from tasks.rag.indexing.figures import _prompt

    return make_picture_reader(tmp_path_factory.mktemp("reader"), describe=_prompt())


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the batches that models in this process are really given."""
    sizes: list[int] = []
    for kind in (CausalLM, HFVision):
        real = kind._generate

        def counted(self: Any, batch: Sequence[Any], *how: Any, real: Any = real) -> Any:
            sizes.append(len(batch))
            return real(self, batch, *how)

        monkeypatch.setattr(kind, "_generate", counted)
    return sizes


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    import pymupdf

    folder = tmp_path / "documents"
    folder.mkdir()
    with pymupdf.open() as pdf:
        for colours in SHOWN:
            page = pdf.new_page()
            page.insert_text((72, 72), "A page with a figure of four colours and some words below its head.")
            page.insert_image(pymupdf.Rect(100, 150, 400, 450), stream=picture_of(colours, side=200))
        pdf.save(folder / "colours.pdf")
    return folder


def kept(keys: Sequence[str]) -> list[StoredResponse]:
    from tasks.resources import responses

    found = responses().many(list(keys))
    return [found[key] for key in keys]


def asked_and_said(answer: StoredResponse) -> tuple[dict[str, Any], dict[str, Any]]:
    assert isinstance(answer.request, dict)
    assert isinstance(answer.response, dict)
    return answer.request, answer.response


def figures_of(vlm: str, **settings: Any) -> list[tuple[bytes, StoredResponse]]:
    """The pictures of the artifact store that this model was asked about, each with its answer."""
    from tasks.rag.indexing.figures import FigureSettings, figure_request
    from tasks.resources import artifacts, responses

    chat = open_chat(vlm)
    pngs = [artifacts().get(one.ref) for one in artifacts().objects() if one.ref.kind == "figure"]
    wanted = FigureSettings(qwen3_vl_max_tokens=8, **settings)
    keys = {response_key(chat.id, figure_request(png, wanted)): png for png in pngs}
    return [(keys[key], answer) for key, answer in responses().many(list(keys)).items()]


@pytest.mark.slow
def test_figures_are_read_by_weights_on_this_disk(
    reader: Path, documents: Path, batches: list[int], tmp_path: Path
) -> None:
    from tasks.rag.indexing.figures import _prompt

    def index(*options: object) -> Done:
        return run_here("rag", "index", documents, "--index", tmp_path / "index", "--json", *PLAIN, *options)

    done = index("--vlm", f"hf:{reader}")
    assert done.code == 0, done.stderr
    assert done.json["figures"]["described"] == len(SHOWN)
    bare, said = Bare(reader), []
    for png, answer in figures_of(f"hf:{reader}"):
        _, response = asked_and_said(answer)
        text, tokens = bare.answer(f"<|user|>{_prompt()}IMAGE<|end|><|assistant|>", [png], most=8)
        assert (response["text"], answer.completion_tokens) == (text, tokens)
        said.append(text)
    assert sorted(said) == sorted(" ".join(colours) for colours in SHOWN)
    assert batches == [len(SHOWN)], "all pictures went through the model together"
    hits = run_here("rag", "search", "yellow blue", "--index", tmp_path / "index", "--json").json["hits"]
    found = {hit["page"]: hit["text"].splitlines()[-1] for hit in hits if hit["text"].startswith("[PAGE")}
    assert found == {page: " ".join(colours) for page, colours in enumerate(SHOWN, start=1)}

    again = index("--vlm", f"hf:{reader}")
    assert again.json["figures"] == done.json["figures"]
    assert len(batches) == 1
    other = shutil.copytree(reader, tmp_path / "other") / "generation_config.json"
    shutil.copytree(reader, tmp_path / "model")
    assert index("--vlm", f"hf:{tmp_path / 'model'}").code == 0
    asked = len(batches)
    (tmp_path / "model" / other.name).write_text(json.dumps({**json.loads(other.read_text()), "top_k": 7}))
    assert index("--vlm", f"hf:{tmp_path / 'model'}").code == 0
    assert len(batches) == asked + 1, "other weights under the same name are asked"


def test_what_does_not_fit_is_said_of_each_figure_and_the_rest_is_indexed(documents: Path, tmp_path: Path) -> None:
    model = make_tiny_qwen3(tmp_path / "model")
    small = ("--vlm", "hf", "--figure", f"qwen3_vl_model_path={model}", "--figure", "qwen3_vl_max_model_len=100")
    done = run_here("rag", "index", documents, "--index", tmp_path / "index", "--json", *PLAIN, *small)
    assert done.code == 0, done.stderr
    assert done.json["figures"] == {"found": 3, "kept": 3, "described": 0, "skipped": 0, "failed": 3}
    assert done.json["chunks"] > 0
    [note] = done.json["warnings"]
    assert "pictures included" in note


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--vlm", "hf:/nowhere"), "there is no folder /nowhere"),
        (("--vlm", "hf"), "set qwen3_vl_model_path"),
        (("--vlm", "hf:FOLDER,dtype=int4"), "dtype=int4"),
    ],
    ids=["path", "no path", "argument"],
)
def test_a_model_that_cannot_be_used_is_refused_in_a_sentence(
    documents: Path, tmp_path: Path, options: Sequence[str], says: str
) -> None:
    folder = make_tiny_qwen3(tmp_path / "model")
    chosen = [option.replace("FOLDER", str(folder)) for option in options]
    done = run_here("rag", "index", documents, "--index", tmp_path / "index", "--json", *PLAIN, *chosen)
    assert (done.code, done.stdout) == (1, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_questions_are_answered_by_weights_on_this_disk(documents: Path, batches: list[int], tmp_path: Path) -> None:
    model = make_tiny_model(tmp_path / "model", says="Four colours stand on the page [1].")
    (documents / "note.txt").write_text("The figures show four colours each.")
    assert run_here("rag", "index", documents, "--index", tmp_path / "index", "--json").code == 0
    questions, out = tmp_path / "questions.jsonl", tmp_path / "answers.jsonl"
    questions.write_text('{"id": "q", "question": "How many colours does a figure show?"}\n')
    batch = ("rag", "batch", questions, "--index", tmp_path / "index", "--out", out, "--llm", f"hf:{model}", "--json")
    done = run_here(*batch)
    assert done.code == 0, done.stderr
    answered = json.loads(out.read_text())
    calls = answered["calls"]
    assert {call["role"] for call in calls} >= {"classify", "answer"}
    for answer in kept([call["key"] for call in calls]):
        request, response = asked_and_said(answer)
        bare = bare_text(model, request["messages"], most=request["max_tokens"])
        assert (response["text"], answer.completion_tokens) == bare
    asked = len(batches)
    assert run_here(*batch).code == 0
    assert len(batches) == asked


def test_a_benchmark_is_answered_by_weights_on_this_disk(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text(
        "\n".join(json.dumps({"q": f"word{n} word{n + 1}?", "a": "1"}) for n in range(5))
    )
    benchmark = 'name: Mine\ndata: {file: mine.jsonl}\nprompt: "{q}"\ngold: a\ngrader: {kind: math}\n'
    (tmp_path / "mine.yaml").write_text(benchmark)
    for kind, make in (("text", make_tiny_model), ("sees", make_tiny_qwen3)):
        model = make(tmp_path / kind)
        arguments = ("--model", "hf", "--model_args", f"pretrained={model}", "--max_tokens", 8)
        out = tmp_path / f"{kind}.json"
        done = run_here("eval", "run", "--json", *arguments, "--tasks", tmp_path / "mine.yaml", "--output_path", out)
        assert done.code == 0, done.stderr
        samples = samples_of(done.json["run"]["id"])
        assert len(samples) == 5
        for answer in kept([key for sample in samples for key in sample.response_keys]):
            request, response = asked_and_said(answer)
            bare = bare_text(model, request["messages"], most=request["max_tokens"])
            assert (response["text"], answer.completion_tokens) == bare


@pytest.mark.slow
def test_a_judge_on_this_disk_answers_ten_queries(reader: Path, tmp_path: Path) -> None:
    pictures = write_questions(tmp_path / "vqa", train=8, validation=4, test=10)
    small = (
        *("--train-queries", 6, "--set", "dataset.validation=4", "--set", "dataset.test=10", "--pool-size", 3),
        *("--set", "beams.queries=2", "--set", "sft.epochs=1", "--set", "rce.epochs=1", "--set", "grpo.rounds=1"),
        *("--set", "grpo.draws=2", "--set", "oracle.most_judgments=0", "--set", "evaluated_shots=[1]", "--shots", 1),
    )
    judged = ("--judge", f"hf:{reader},dtype=float32", "--encoder", f"hf:{make_tiny_clip(tmp_path / 'clip')}")
    places = ("--data-dir", tmp_path / "vqa", "--results", tmp_path / "results", "--json")
    done = run_here("lever", "run", *places, *judged, *small)
    assert done.code == 0, done.stderr

    samples, bare = samples_of(done.json["run"]), Bare(reader)
    assert len(samples) == 10
    assert all(sample.response_keys for sample in samples)
    for answer in kept([key for sample in samples for key in sample.response_keys]):
        request, response = asked_and_said(answer)
        [turn] = request["messages"]
        words = "".join(part.get("text", "IMAGE") for part in turn["content"])
        shown = [pictures[part["sha256"]] for part in turn["content"] if part["type"] == "image"]
        assert len(shown) == 2
        expected = bare.answer(f"<|user|>{words}<|end|><|assistant|>", shown, most=request["max_tokens"])
        assert (response["text"], answer.completion_tokens) == expected


def write_questions(folder: Path, **sizes: int) -> dict[str, bytes]:
    """Questions about the corners of pictures, in the files of the CPU world; gives the pictures by their digests."""
    combinations, pictures = itertools.product(COLOURS, repeat=4), dict[str, bytes]()
    number = itertools.count(1)
    (folder / "images").mkdir(parents=True)
    for split, size in sizes.items():
        questions, annotations = list[Any](), list[Any]()
        for colours in itertools.islice(combinations, size):
            image, corner = next(number), len(questions) % 4
            png = picture_of(colours, side=64)
            (folder / "images" / f"digits_{split}_{image:06d}.png").write_bytes(png)
            pictures[hashlib.sha256(png).hexdigest()] = png
            questions.append(question(image * 1000, image, CORNERS[corner]))
            annotations.append(annotation(image * 1000, image, *[colours[corner]] * 10))
        files = [folder / f"digits_{split}_{part}.json" for part in ("questions", "annotations")]
        write_files(files[0], files[1], questions, annotations)
    return pictures


def samples_of(run: str) -> list[Any]:
    from tasks.resources import evaluations

    [found] = evaluations().read(run)
    return list(found.samples)


def bare_text(folder: Path, messages: Any, *, most: int) -> tuple[str, int]:
    """What transformers' own tokenizer, template and model say, and in how many tokens."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    sees = hasattr(AutoConfig.from_pretrained(folder), "vision_config")
    turns = (
        messages if sees else [{**one, "content": "".join(part["text"] for part in one["content"])} for one in messages]
    )
    model: Any = (AutoModelForImageTextToText if sees else AutoModelForCausalLM).from_pretrained(folder)
    prompt = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    tokens = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        whole = model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=most, do_sample=False)
    said = whole[0, tokens.shape[1] :]
    return tokenizer.decode(said, skip_special_tokens=True), len(said)
