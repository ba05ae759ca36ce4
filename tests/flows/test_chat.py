"""The chat at a real terminal, in a pipe, and without a database."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from models.embedders import open_embedder
from storage import connections
from storage.embedded import Cluster
from storage.sessions import Sessions
from tasks.rag.answers import Answered
from tests.command import TRIVET, Done, run_here
from tests.flows.asks import publish_texts
from tests.models.server import MODEL, Reply, Server, half_a_stream, serving
from tests.terminal import CTRL_C, CTRL_D, UP, Terminal, at_terminal

NO_DATABASE = {"DATABASE_URL": "postgresql://me:secret@127.0.0.1:9/trivet"}
BUDGET = "가람시 사업의 예산은 얼마인가?"
HARBOR = "What is the bid price of the harbor?"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish_texts(tmp_path_factory.mktemp("chat") / "index", embedder=open_embedder("minilm"))


@pytest.fixture(scope="module")
def sessions() -> Iterator[Sessions]:
    home = Path(os.environ["TRIVET_HOME"])
    yield Sessions(lambda: connections.locate(None, home))
    connections.engine(Cluster(home).start()).dispose()


def chat(index: Path, *options: str, **environment: str) -> AbstractContextManager[Terminal]:
    return at_terminal([*TRIVET, "rag", "chat", "--index", str(index), *options], **environment)


def pipe(index: Path, *options: str, lines: bytes, **environment: str) -> Done:
    done = subprocess.run(
        [*TRIVET, "rag", "chat", "--index", str(index), *options],
        input=lines,
        capture_output=True,
        env=os.environ | NO_DATABASE | environment,
        timeout=120,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def ask(terminal: Terminal, question: str, *expected: str) -> str:
    """Type a line when the prompt is there, and read on to the last of what is expected."""
    terminal.expect("›")
    terminal.type(question + "\r")
    return "".join(terminal.expect(each) for each in expected)


@pytest.mark.slow
@pytest.mark.postgres
def test_three_turns_a_follow_up_an_explanation_and_a_reset(index: Path) -> None:
    with chat(index, "--max-wrong", "1") as terminal:
        terminal.expect("3 documents; /help lists the commands")
        ask(terminal, BUDGET, "1,250,000,000원이다 [1]", "[1] 가람시.pdf, page 1", "“")
        ask(terminal, "그럼 기간은?", "6개월", "[1] 가람시.pdf, page 1")
        ask(terminal, "/explain", "followup", "only 1 of the documents", "seconds")
        ask(terminal, HARBOR, "35,750,000 won [1]", "[1] harbor.pdf, page 1")
        ask(terminal, "/sources", "[1] harbor.pdf, page 1", "“", "35,750,000")
        ask(terminal, "/reset", "forgotten; the next question begins anew; kept as session ")
        ask(terminal, "/explain", "nothing has been answered yet")
        ask(terminal, "/help", "/quit")
        ask(terminal, "/nonsense", "there is no command /nonsense")
        ask(terminal, "/quit")
        assert terminal.ends() == 0


@pytest.mark.slow
@pytest.mark.postgres
def test_a_session_goes_on_in_another_process(index: Path, sessions: Sessions) -> None:
    with chat(index) as terminal:
        ask(terminal, BUDGET, "1,250,000,000원")
        ask(terminal, "/reset", "forgotten")
        ask(terminal, HARBOR, "35,750,000 won")
        ask(terminal, CTRL_D, "kept as session ")
        assert terminal.ends() == 0
    harbor, budget = sessions.recent(2)
    assert (harbor.title, budget.title) == (HARBOR, BUDGET)
    with chat(index, "--resume") as terminal:
        terminal.expect(f"session {harbor.short_id}")
        terminal.expect("1 turns; the last:")
        terminal.expect(HARBOR)
        ask(terminal, CTRL_D)
        terminal.ends()
    with chat(index, "--resume", budget.short_id) as terminal:
        terminal.expect("1,250,000,000원")
        ask(terminal, "그럼 기간은?", "6개월")
        ask(terminal, "/explain", "only 1 of the documents")
        ask(terminal, CTRL_D)
        assert terminal.ends() == 0
    assert [turn.question for turn in sessions.turns(budget.id)] == [BUDGET, "그럼 기간은?"]


def _stall(_: str, body: dict[str, Any]) -> Reply | None:
    """A stream that stops in its midst; what is no stream is answered."""
    return half_a_stream(body, "Half of the", stalls=True) if body.get("stream") else None


@pytest.fixture
def model() -> Iterator[Server]:
    with serving() as server:
        server.misbehave = _stall
        server.answer = lambda _: "The bid price of the harbor is 35,750,000 won [1]."
        yield server


@pytest.mark.slow
@pytest.mark.postgres
def test_ctrl_c_stops_an_answer_and_not_the_program(index: Path, model: Server, sessions: Sessions) -> None:
    local = {"TRIVET_LLM_BASE_URL": model.base_url, "TRIVET_LLM_MODEL": MODEL, "OPENAI_API_KEY": "none"}
    with chat(index, "--llm", "local", **local) as terminal:
        ask(terminal, "What is the bid price of the tram?", "Half of the")
        terminal.type(CTRL_C * 3)
        terminal.expect("stopped; the question is not part of the conversation")
        model.misbehave = None
        ask(terminal, HARBOR, "35,750,000 won [1]")
        ask(terminal, CTRL_D, "kept as session ")
        assert terminal.ends() == 0
    [turn] = sessions.turns(sessions.recent(1)[0].id)
    assert turn.question == HARBOR


@pytest.mark.slow
def test_without_a_database_the_chat_goes_on_and_says_so_once(index: Path) -> None:
    with chat(index, **NO_DATABASE) as terminal:
        said = ask(terminal, BUDGET, "1,250,000,000원", "from here on the conversation is not kept: ")
        said += ask(terminal, "그럼 기간은?", "6개월")
        said += ask(terminal, CTRL_D)
        assert terminal.ends() == 0
    assert terminal.text.count("is not kept") == 1
    assert "secret" not in terminal.text


@pytest.mark.slow
def test_ctrl_c_gives_up_a_line_and_the_arrow_brings_an_old_one_back(index: Path) -> None:
    with chat(index, **NO_DATABASE) as terminal:
        ask(terminal, "/help", "/quit")
        terminal.expect("›")
        terminal.type("half a line" + CTRL_C * 5)
        terminal.expect("half a line")
        ask(terminal, UP, "/quit")
        ask(terminal, CTRL_D)
        assert terminal.ends() == 0


@pytest.mark.slow
def test_bytes_that_are_no_text_end_nothing(index: Path) -> None:
    with chat(index, **NO_DATABASE) as terminal:
        terminal.expect("›")
        os.write(terminal.screen, b"\xff\xfe")
        terminal.type(f" {BUDGET}\r")
        terminal.expect("1,250,000,000원")
        ask(terminal, CTRL_D)
        assert terminal.ends() == 0


@pytest.mark.slow
def test_a_pipe_answers_line_by_line_without_colours(index: Path) -> None:
    done = pipe(index, lines=f"{BUDGET}\n\n  그럼 기간은?\n/explain\n/quit\n{HARBOR}\n".encode())
    assert (done.code, "\x1b" in done.stdout + done.stderr) == (0, False)
    assert re.search(r"1,250,000,000원이다 \[1\].*6개월.*followup", done.stdout, re.DOTALL)
    assert "35,750,000" not in done.stdout


@pytest.mark.slow
def test_a_pipe_with_json_gives_an_answer_a_line(index: Path) -> None:
    done = pipe(index, "--json", lines=f"{BUDGET}\n/sources\n{HARBOR}\n".encode())
    answers = [Answered.model_validate(json.loads(line)) for line in done.stdout.splitlines()]
    assert [answer.citations[0].document for answer in answers] == ["가람시.pdf", "harbor.pdf"]


@pytest.mark.slow
def test_a_program_at_the_pipe_gets_each_answer_before_it_asks_on(index: Path) -> None:
    command = [*TRIVET, "rag", "chat", "--index", str(index), "--json"]
    environment = os.environ | NO_DATABASE
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as child:
        assert child.stdin
        assert child.stdout
        for question in (BUDGET, "그럼 기간은?"):
            child.stdin.write(f"{question}\n".encode())
            child.stdin.flush()
            assert json.loads(child.stdout.readline())["question"] == question
        child.stdin.close()
    assert child.returncode == 0


def test_a_question_without_an_answer_is_a_sentence_and_the_next_is_answered(index: Path) -> None:
    done = pipe(index, lines=b"?!\n\xff\xfe?\n" + b"x" * 100_000 + f"\n{BUDGET}\n".encode())
    assert (done.code, "Traceback" in done.stderr) == (3, False)
    assert [line.partition(";")[0] for line in done.stderr.splitlines() if line.startswith("error: ")] == [
        "error: the question is empty",
        "error: the question is empty",
        "error: the question has 100,000 characters",
    ]
    assert "1,250,000,000원" in done.stdout


@pytest.mark.slow
def test_ctrl_c_ends_a_pipe(index: Path) -> None:
    command = [*TRIVET, "rag", "chat", "--index", str(index)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | NO_DATABASE
    ) as child:
        assert child.stdin
        assert child.stdout
        child.stdin.write(f"{BUDGET}\n".encode())
        child.stdin.flush()
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
    assert (child.returncode, b"Traceback" in err) == (130, False)


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("session", "code", "said"),
    [((), 2, "no conversation on"), (("0000",), 1, "no session has an id that begins with 0000"), (("x!",), 1, "'x!'")],
    ids=["none", "unknown", "no-id"],
)
def test_what_cannot_be_resumed_is_refused(
    tmp_path: Path, session: tuple[str, ...], code: int, said: str, sessions: Sessions
) -> None:
    sessions.recent(1)
    done = run_here("rag", "chat", "--index", publish_texts(tmp_path / "index"), "--resume", *session)
    assert (done.code, said in done.stderr) == (code, True)


@pytest.mark.postgres
def test_a_session_about_another_index_is_refused(tmp_path: Path, sessions: Sessions) -> None:
    other = sessions.start("/another/index")
    done = run_here("rag", "chat", "--index", publish_texts(tmp_path / "index"), "--resume", other.short_id)
    assert (done.code, "is about /another/index; give that as --index" in done.stderr) == (2, True)


def test_a_session_without_resume_is_refused(tmp_path: Path) -> None:
    done = run_here("rag", "chat", "1f0c9a3e", "--index", tmp_path)
    assert (done.code, "--resume 1f0c9a3e" in done.stderr) == (2, True)
