"""A model that cannot be asked is refused before anything is started, with the option, the reason and the remedy."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.command import Done, run_here


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Documents, a folder of a model that reads text alone, and an empty one."""
    for name in ("documents", "text", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "documents" / "notice.txt").touch()
    (tmp_path / "text" / "config.json").write_text(json.dumps({"model_type": "llama"}))
    return tmp_path


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that starts one fails with a TypeError, and exits with 1."""
    monkeypatch.setattr("flows.cli.engine.prefect_api", None)


def index(folder: Path, *options: str) -> Done:
    chosen = [option.replace("FOLDER", str(folder)) for option in options]
    return run_here("rag", "index", folder / "documents", "--index", folder / "index", "--dry-run", "--json", *chosen)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--vlm", "hf:/nowhere"), "--vlm hf:/nowhere: there is no folder /nowhere with a model; check the path"),
        (("--vlm", "hf:FOLDER/empty"), "there is no config.json in it; name the folder that has one"),
        (("--vlm", "hf:FOLDER/text"), "reads text alone, and it would be shown pictures; name one that sees, such as"),
        (("--vlm", "hf:FOLDER/text,colour=red"), "hf has no argument colour; it has"),
        (("--vlm", "hf"), "--vlm hf: hf alone names no weights; write hf:FOLDER, or set qwen3_vl_model_path"),
        (("--vlm", "telepathy"), "--vlm telepathy: There is no model backend called 'telepathy'; give `openai:MODEL`"),
        (("--vlm", "scripted:/nowhere"), "--vlm scripted:/nowhere: "),
        (
            ("--vlm", "scripted", "--max-cost", "3"),
            "a limit on the cost needs the model's prices per million tokens: --set spending.prices",
        ),
    ],
    ids=["folder", "no model", "text", "argument", "no name", "backend", "script", "no price"],
)
def test_a_model_that_describes_no_figure(folder: Path, options: Sequence[str], said: str) -> None:
    done = index(folder, *options)
    assert (done.code, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--model hf: hf needs a model: give --model-name NAME or --model-args pretrained=NAME"),
        (("--model", "openai", "--model_name", "m"), "--model openai: https://api.openai.com/v1 asks for a key"),
        (("--model", "scripted", "--tasks", "NoSuch"), "there is no benchmark 'NoSuch'"),
        (("--model_args", "pretrained=/nowhere"), "--model hf: there is no folder /nowhere with a model"),
        (("--model", "curator", "--model_name", "nosuch/m"), "--model curator: 'nosuch/m' is no provider/model"),
        (
            ("--model", "scripted", "--annotator_model", "hf", "--annotator_args", "pretrained=/nowhere"),
            "--annotator_model hf: there is no folder /nowhere",
        ),
    ],
    ids=["no name", "no key", "no such task", "folder", "provider", "judge"],
)
def test_a_model_that_answers_no_benchmark(options: Sequence[str], said: str) -> None:
    done = run_here("eval", "run", "--tasks", "AIME24", "--json", *options)
    assert (done.code, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("rag batch FOLDER/broken.jsonl --index FOLDER --out FOLDER/out", "broken.jsonl, line 1: expected {id, quest"),
        ("lever run --dataset trec", "trec is read from a folder that exists; --data-dir names none"),
        ("lever run --dataset digits --judge openai:m", "--judge openai:m: https://api.openai.com/v1 asks for a key"),
        ("nightly run FOLDER/broken.jsonl", "broken.jsonl, line 1: "),
    ],
    ids=["batch", "data", "judge's key", "suite"],
)
def test_a_file_or_folder_that_cannot_be_read(folder: Path, command: str, said: str) -> None:
    (folder / "broken.jsonl").write_text("broken\n")
    done = run_here(*command.replace("FOLDER", str(folder)).split())
    assert (done.code, said in done.stderr) == (2, True), done.stderr


def test_a_judge_that_sees_nothing(folder: Path) -> None:
    done = run_here("lever", "run", "--dataset", "okvqa", "--judge", f"hf:{folder / 'text'}", "--json")
    assert (done.code, done.stdout) == (2, "")
    assert f"--judge hf:{folder / 'text'}: the model in {folder / 'text'} reads text alone" in done.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hf:/nowhere", "hf:/nowhere: there is no folder /nowhere with a model"),
        ("local", "--llm local needs a model: set TRIVET_LLM_MODEL"),
    ],
    ids=["folder", "settings"],
)
def test_a_model_that_answers_no_question(folder: Path, name: str, said: str) -> None:
    done = run_here("rag", "ask", "Why?", "--index", folder, "--llm", name, "--json")
    assert (done.code, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is here")
def test_a_model_of_vllm_where_that_is_not_installed(folder: Path) -> None:
    done = index(folder, "--vlm", "vllm:FOLDER/text")
    assert done.code == 2
    assert "vLLM is not installed here; install it (`pip install 'trivet[gpu]'`), or load the model" in done.stderr
