"""Whole commands with a vLLM that was taught to see: what is kept is, token for token, what a bare generate says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flows.running.settings import configure_steps
from tests.command import run_apart
from tests.engine.local_models import (
    LITTLE,
    PLAIN,
    SHOWN,
    assert_judged_as_bare,
    make_reader,
    said_of_figures,
    write_documents,
    write_questions,
)
from tests.models.tiny_vision import make_tiny_clip

pytestmark = [pytest.mark.engine, pytest.mark.postgres]

SMALL = "dtype=float32,gpu_memory_utilization=0.1,enforce_eager=true"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that reads pictures of four colours."""
    return make_reader(tmp_path_factory.mktemp("reader"))


@pytest.mark.parametrize("place", ["in process", "served"])
def test_figures_are_read_as_a_bare_generate_reads_them(
    place: str, reader: Path, served: Callable[[Path], str], marked: dict[str, str], tmp_path: Path
) -> None:
    vlm = "openai:tiny" if place == "served" else f"vllm:{reader},{SMALL}"
    address = {"OPENAI_BASE_URL": served(reader)} if place == "served" else {}
    index = ("rag", "index", write_documents(tmp_path / "documents"), "--index", tmp_path / "index", "--json")
    done = run_apart(*index, *PLAIN, "--vlm", vlm, before=None, **marked, **address)
    assert done.code == 0, done.stderr
    assert done.json["figures"]["described"] == len(SHOWN)
    configure_steps()
    assert said_of_figures(vlm, reader) == sorted(" ".join(colours) for colours in SHOWN)


def test_a_judge_answers_ten_queries_as_a_bare_generate_answers_them(
    reader: Path, marked: dict[str, str], tmp_path: Path
) -> None:
    pictures = write_questions(tmp_path / "vqa", train=8, validation=4, test=10)
    judged = ("--judge", f"vllm:{reader},{SMALL}", "--set", f"encoder=hf:{make_tiny_clip(tmp_path / 'clip')}")
    places = ("--data-dir", tmp_path / "vqa", "--results", tmp_path / "results", "--json")
    done = run_apart("lever", "run", *places, *judged, *LITTLE, before=None, **marked)
    assert done.code == 0, done.stderr
    configure_steps()
    assert_judged_as_bare(done.json["run"], reader, pictures)
