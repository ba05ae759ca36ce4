"""All pipelines with weights on this disk: what is kept is, token for token, what a bare generate says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from models.causal_lm import CausalLM
from tests.command import Done, run_here
from tests.engine.local_models import (
    LITTLE,
    PLAIN,
    SHOWN,
    asked_and_said,
    assert_judged_as_bare,
    kept,
    make_reader,
    said_of_figures,
    samples_of,
    write_documents,
    write_questions,
)
from tests.models.tiny import make_tiny_model
from tests.models.tiny_vision import make_tiny_clip, make_tiny_qwen3

pytestmark = [pytest.mark.engine, pytest.mark.postgres]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that reads pictures of four colours."""
    return make_reader(tmp_path_factory.mktemp("reader"))


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    return write_documents(tmp_path / "documents")


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the batches that models in this process are really given."""
    sizes: list[int] = []
    real = CausalLM._generate  # that of models which see, too

    def counted(self: Any, batch: Sequence[Any], *how: Any) -> Any:
        sizes.append(len(batch))
        return real(self, batch, *how)

    monkeypatch.setattr(CausalLM, "_generate", counted)
    return sizes


@pytest.mark.slow
def test_figures_are_read_by_weights_on_this_disk(
    reader: Path, documents: Path, batches: list[int], tmp_path: Path
) -> None:
    def index(*options: object) -> Done:
        return run_here("rag", "index", documents, "--index", tmp_path / "index", "--json", *PLAIN, *options)

    done = index("--vlm", f"hf:{reader}")
    assert done.code == 0, done.stderr
    assert done.json["figures"]["described"] == len(SHOWN)
    said = said_of_figures(f"hf:{reader}", reader)
    assert said == sorted(" ".join(colours) for colours in SHOWN)
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
    small = (f"--set=figures.qwen3_vl_model_path={model}", "--set=figures.qwen3_vl_max_model_len=100")
    done = run_here("rag", "index", documents, "--index", tmp_path / "index", "--json", "--vlm", "hf", *PLAIN, *small)
    assert done.code == 0, done.stderr
    assert done.json["figures"] == {"found": 3, "kept": 3, "described": 0, "skipped": 0, "failed": 3}
    assert done.json["chunks"] > 0
    [note] = done.json["warnings"]
    assert "pictures included" in note


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
        for answer in kept([key for sample in samples for key in sample.keys]):
            request, response = asked_and_said(answer)
            bare = bare_text(model, request["messages"], most=request["max_tokens"])
            assert (response["text"], answer.completion_tokens) == bare


@pytest.mark.slow
def test_a_judge_on_this_disk_answers_ten_queries(reader: Path, tmp_path: Path) -> None:
    pictures = write_questions(tmp_path / "vqa", train=8, validation=4, test=10)
    judged = ("--judge", f"hf:{reader},dtype=float32", "--set", f"encoder=hf:{make_tiny_clip(tmp_path / 'clip')}")
    places = ("--data-dir", tmp_path / "vqa", "--results", tmp_path / "results", "--json")
    done = run_here("lever", "run", *places, *judged, *LITTLE)
    assert done.code == 0, done.stderr
    assert_judged_as_bare(done.json["run"], reader, pictures)


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
