from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from models.model_errors import ModelUnavailable, RequestRefused
from models.protocols import ChatRequest, Message
from models.scripted import ReplayChat


def record(folder: Path, *rows: object) -> Path:
    path = folder / "answers.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), "utf-8")
    return path


def request(*turns: tuple[str, str]) -> ChatRequest:
    messages = [{"role": role, "content": [{"text": text}]} for role, text in turns]
    return ChatRequest(messages=tuple(Message.model_validate(message) for message in messages))


CONVERSATION = [("user", "One?"), ("assistant", "1"), ("user", "Two?")]


@pytest.mark.parametrize(
    ("row", "asked"),
    [
        pytest.param({"prompt": "One?"}, [("user", "One?")], id="prompt"),
        pytest.param({"prompt": "One?"}, [("system", "Be brief"), ("user", "One?")], id="whatever the system says"),
        pytest.param({"prompt": "Be brief\n\nOne?"}, [("system", "Be brief"), ("user", "One?")], id="joined"),
        pytest.param(
            {"messages": [{"role": role, "content": text} for role, text in CONVERSATION]}, CONVERSATION, id="messages"
        ),
        pytest.param({"prompt": "half \ud83d"}, [("user", "half \ud83d")], id="half a pair"),
    ],
)
def test_the_recorded_answer_is_given(tmp_path: Path, row: dict[str, object], asked: list[tuple[str, str]]):
    chat = ReplayChat(record(tmp_path, {"prompt": "Else"} | {"response": "no"}, row | {"response": "yes"}))
    heard: list[str] = []
    assert (chat.complete(request(*asked), on_text=heard.append).text, heard) == ("yes", ["yes"])


def test_a_recorded_answer_ends_at_a_stop_of_the_request(tmp_path: Path):
    chat = ReplayChat(record(tmp_path, {"prompt": "One?", "response": "1\n\nTwo? 2"}))
    heard: list[str] = []
    asked = request(("user", "One?")).model_copy(update={"stop": ("Two", "\n\n")})
    assert (chat.complete(asked, on_text=heard.append).text, heard) == ("1", ["1"])


@pytest.mark.parametrize("cut", [-20, 1], ids=["cut off", "not packed at all"])
def test_a_packed_file_that_is_damaged_is_said_to_be(tmp_path: Path, cut: int):
    packed = tmp_path / "answers.jsonl.gz"
    whole = gzip.compress(record(tmp_path, {"prompt": "One?", "response": "1"}).read_bytes())
    packed.write_bytes(whole)
    assert ReplayChat(packed).complete(request(("user", "One?"))).text == "1"
    packed.write_bytes(whole[:cut] if cut < 0 else whole[cut:])
    with pytest.raises(ModelUnavailable, match=r"answers\.jsonl\.gz: the compressed file is damaged"):
        ReplayChat(packed)


def test_what_was_not_recorded_is_refused_by_its_beginning(tmp_path: Path):
    chat = ReplayChat(record(tmp_path, {"prompt": "One?", "response": "1"}))
    with pytest.raises(RequestRefused, match="begins 'What is'"):
        chat.complete(request(("user", "What is")))


@pytest.mark.parametrize("as_folder", [False, True], ids=["file", "folder"])
@pytest.mark.parametrize("row", [{"id": "7", "response": "1"}, {"task_id": "7", "completion": "1"}], ids=str)
def test_answers_by_item_are_not_given_to_prompts(tmp_path: Path, row: dict[str, str], as_folder: bool):
    path = record(tmp_path, row)
    chat = ReplayChat(tmp_path if as_folder else path)
    assert chat.is_by_item
    with pytest.raises(RequestRefused, match="by the id of an item"):
        chat.complete(request(("user", "One?")))


def test_other_answers_make_another_id(tmp_path: Path):
    first = ReplayChat(record(tmp_path, {"prompt": "One?", "response": "1"})).id
    again = ReplayChat(record(tmp_path, {"prompt": "One?", "response": "1"})).id
    other = ReplayChat(record(tmp_path, {"prompt": "One?", "response": "2"})).id
    assert first == again != other
    assert first.startswith("replay:answers.jsonl@")


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ('{"prompt": ', "answers.jsonl:2: this is not JSON"),
        ("[1]", "answers.jsonl:2: this is no JSON object"),
        ('{"response": "1"}', "neither a `prompt` nor"),
        ('{"messages": ["x"], "response": "1"}', "neither a `prompt` nor"),
        ('{"prompt": "x"}', "there is no `response`"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, row: str, says: str):
    with pytest.raises(ModelUnavailable, match=says):
        ReplayChat(record(tmp_path, {"prompt": "One?", "response": "1"}, row))


@pytest.mark.parametrize("name", ["nothing.jsonl", "."], ids=["no file", "an empty folder"])
def test_no_recording_is_said(tmp_path: Path, name: str):
    with pytest.raises(ModelUnavailable, match="no recorded answers"):
        ReplayChat(tmp_path / name)


def test_recorded_log_probabilities_are_told_to_who_asks(tmp_path: Path):
    chat = ReplayChat(record(tmp_path, {"prompt": "One?", "response": "m", "top_logprobs": {"m": -0.5}}))
    asked = request(("user", "One?"))
    assert chat.complete(asked).top_logprobs == {}
    assert chat.complete(asked.model_copy(update={"top_logprobs": 5})).top_logprobs == {"m": -0.5}
