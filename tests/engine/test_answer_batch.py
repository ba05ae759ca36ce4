"""Many questions as a flow: every answer is kept, what is missing is asked, and what was asked is not asked again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from flows.running.settings import configure_steps, settings
from tests.command import TRIVET, Done, run_here
from tests.models.server import Reply, Server, hangs, serving, system_of

pytestmark = pytest.mark.engine

QUESTIONS = {
    "budget": "What is the budget of the zirconium furnace?",
    "due": "When are the proposals for the furnace due?",
    "nothing": "?",
    "moon": "Who was the first person on the moon of Saturn?",
}


class Place(NamedTuple):
    """A small index, a file of questions, and where the answers go."""

    folder: Path
    questions: Path
    out: Path

    def answer(self, *options: object) -> Done:
        return run_here("rag", "batch", self.questions, "--index", self.folder, "--out", self.out, "--json", *options)

    @property
    def answers(self) -> dict[str, dict[str, Any]]:
        return {line["id"]: line for line in map(json.loads, self.out.read_text().splitlines())}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    documents, out = tmp_path_factory.mktemp("documents"), tmp_path_factory.mktemp("out") / "index"
    (documents / "furnace.txt").write_text(
        "The zirconium furnace is bought by the county of Raon.\nThe budget of the zirconium furnace is $41,000.\n"
        "The proposals for the furnace are due on May 7, 2024.\n"
    )
    assert run_here("rag", "index", documents, "--index", out, "--json").code == 0
    return out


@pytest.fixture
def place(index: Path, tmp_path: Path) -> Place:
    questions = tmp_path / "questions.jsonl"
    lines = [json.dumps({"id": id, "question": text}) for id, text in QUESTIONS.items()]
    questions.write_text("\n".join(lines))
    return Place(index, questions, tmp_path / "answers" / "out.jsonl")


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A local model behind a real server, as the settings of a machine name it."""
    with serving() as server, monkeypatch.context() as patch:
        server.answer = lambda body: "single" if system_of(body).startswith("You sort") else "It is $41,000 [1]."
        patch.setenv("TRIVET_LLM_MODEL", "small-vision")
        patch.setenv("TRIVET_LLM_BASE_URL", server.base_url)
        settings.cache_clear()
        configure_steps()
        yield server
    settings.cache_clear()
    configure_steps()


def test_every_question_gets_a_line_in_the_order_of_the_questions(place: Place) -> None:
    done = place.answer()
    assert done.code == 3, "one question is empty"
    assert list(place.answers) == list(QUESTIONS)
    assert "$41,000" in place.answers["budget"]["answer"]
    assert "May 7, 2024" in place.answers["due"]["answer"]
    assert place.answers["due"]["citations"][0]["document"] == "furnace.txt"
    assert place.answers["moon"]["abstained"]
    assert "is empty" in place.answers["nothing"]["error"]
    counts = {name: done.json[name] for name in ("questions", "answered", "abstained", "failed", "unfinished")}
    assert counts == {"questions": 4, "answered": 2, "abstained": 1, "failed": 1, "unfinished": 0}


def test_the_file_comes_back_when_it_was_lost(place: Place) -> None:
    place.answer()
    before = place.out.read_bytes()
    place.out.unlink()
    place.answer()
    assert place.out.read_bytes() == before


@pytest.mark.postgres
def test_a_question_is_asked_once_and_a_new_one_alone_later(place: Place, model: Server) -> None:
    place.answer("--llm", "local")
    asked = len(model.requests)
    with place.questions.open("a") as file:
        file.write("\n" + json.dumps({"id": "more", "question": "How much money is there for the zirconium furnace?"}))
    place.answer("--llm", "local")
    assert asked == 3 * 3
    assert len(model.requests) == asked + 3, "classify, answer and rewrite of the new question"


@pytest.mark.postgres
def test_a_model_that_is_away_leaves_its_questions_to_the_next_run(place: Place, model: Server) -> None:
    place.questions.write_text(json.dumps({"id": 1, "question": "How large is the budget of the zirconium furnace?"}))
    model.misbehave = lambda path, body: Reply(401, b'{"error": {"message": "no such key"}}')
    first = place.answer("--llm", "local")
    assert (first.code, first.json["unfinished"]) == (1, 1)
    assert "1 answer is unfinished" in first.stderr
    assert "$41,000" in place.answers["1"]["answer"], "the documents answer meanwhile"
    model.misbehave = None
    second = place.answer("--llm", "local")
    assert (second.code, second.json["unfinished"]) == (0, 0)
    assert place.answers["1"]["answer"] == "It is $41,000 [1]."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no question"),
        ("what?", "line 1: expected {id, question}"),
        ('{"id": "a", "question": "x"}\n{"id": "a", "question": "y"}', "stands there twice"),
        ("\xff", "expected {id, question}"),
    ],
    ids=["empty", "no JSON", "two of an id", "one sign"],
)
def test_a_file_that_holds_no_questions_is_refused(place: Place, text: str, said: str) -> None:
    place.questions.write_text(text)
    done = place.answer()
    assert done.code == 2
    assert said in done.stderr
    assert not place.out.exists()


@pytest.mark.postgres
@pytest.mark.slow
def test_ctrl_c_does_not_wait_for_a_model_that_hangs(place: Place, model: Server) -> None:
    place.questions.write_text(json.dumps({"id": "slow", "question": "Is the furnace of Raon made of zirconium?"}))
    model.misbehave = lambda path, body: hangs()
    asked = len(model.requests)
    command = [*TRIVET, "rag", "batch", place.questions, "--index", place.folder, "--out", place.out, "--llm", "local"]
    environment = os.environ | {"TRIVET_LLM_BASE_URL": model.base_url}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True) as batch:
        while len(model.requests) == asked:
            assert batch.poll() is None
            time.sleep(0.05)
        os.killpg(batch.pid, signal.SIGINT)
        _, said = batch.communicate(timeout=60)
    assert batch.returncode == 130
    assert "interrupted; what is finished is kept" in said


@pytest.mark.postgres
@pytest.mark.drill
@pytest.mark.slow
def test_after_kill_9_only_what_is_missing_is_asked(place: Place, model: Server) -> None:
    """The server counts: each request once, and once more what was under way at the kill."""
    count = 12
    asked = [f"Is the furnace number {number} of Raon made of zirconium?" for number in range(count)]
    place.questions.write_text("\n".join(json.dumps({"id": text, "question": text}) for text in asked))
    answer = model.answer
    assert answer

    def slowly(body: dict[str, Any]) -> str:
        time.sleep(0.05)
        return answer(body)

    model.answer = slowly
    command = [*TRIVET, "rag", "batch", place.questions, "--index", place.folder, "--out", place.out, "--llm", "local"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as batch:
        while len(model.requests) < count:  # a third of what is to be asked
            assert batch.poll() is None
            time.sleep(0.01)
        batch.kill()
    assert not place.out.exists()
    done = place.answer("--llm", "local")
    assert (done.code, done.json["questions"], done.json["unfinished"]) == (0, count, 0)
    assert list(place.answers) == asked
    times = Counter(json.dumps(request["body"], sort_keys=True) for request in model.requests)
    assert len(times) == 3 * count, "classify, answer and rewrite of each question"
    assert sum(times.values()) - len(times) <= 1, "one shard asks one thing at a time"
