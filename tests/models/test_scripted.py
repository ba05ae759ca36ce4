from __future__ import annotations

import io
import json
import math
from pathlib import Path

import PIL.Image
import pytest

from models.backends import open_chat
from models.model_errors import ModelUnavailable
from models.protocols import ChatRequest, Image, Message, Text
from models.scripted import Rule, ScriptedChat, ScriptedReranker, read_rules


def png(width: int = 8, height: int = 6) -> bytes:
    file = io.BytesIO()
    PIL.Image.new("RGB", (width, height), "red").save(file, "PNG")
    return file.getvalue()


def ask(chat: ScriptedChat, prompt: str, image: bytes | None = None) -> str:
    parts = (Text(text=prompt), *((Image(png=image),) if image else ()))
    return chat.complete(ChatRequest(messages=(Message(role="user", content=parts),))).text


def test_the_first_rule_that_fits_answers():
    chat = ScriptedChat([Rule(prompt="budget", answer="₩10"), Rule(prompt="b", answer="later")])
    assert (ask(chat, "What budget?"), ask(chat, "bb"), ask(chat, "else")) == ("₩10", "later", "You said: else")


def test_a_rule_tells_log_probabilities_to_who_asks():
    chat = ScriptedChat([Rule(answer="m", top_logprobs={"m": -0.1, "M": -2.4})])
    asked = ChatRequest(messages=(Message(role="user", content=(Text(text="?"),)),))
    assert chat.complete(asked).top_logprobs == {}
    assert chat.complete(asked.model_copy(update={"top_logprobs": 5})).top_logprobs == {"m": -0.1, "M": -2.4}


def test_another_script_has_another_id():
    ids = {ScriptedChat().id, ScriptedChat([Rule(answer="a")]).id, ScriptedChat([Rule(answer="b")]).id}
    assert len(ids) == 3


def test_a_script_is_read_from_a_file(tmp_path: Path):
    file = tmp_path / "script.json"
    file.write_text(json.dumps([{"prompt": "x", "answer": "y"}]))
    assert read_rules(file) == (Rule(prompt="x", answer="y"),)
    assert open_chat(f"scripted:{file}").id == ScriptedChat(read_rules(file)).id


@pytest.mark.parametrize(
    "content", ["", "{}", '[{"answer": 3}]', '[{"ansver": "typo"}]', '[{"prompt": "(", "answer": "x"}]']
)
def test_a_broken_script_is_named(tmp_path: Path, content: str):
    file = tmp_path / "script.json"
    file.write_text(content)
    with pytest.raises(ModelUnavailable, match=r"script\.json"):
        open_chat(f"scripted:{file}")


def test_words_are_told_one_by_one_and_line_breaks_stay():
    heard: list[str] = []
    chat = ScriptedChat([Rule(answer="Two  words\nand a line. ")])
    chat.complete(ChatRequest(messages=(Message(role="user", content=(Text(text="x"),)),)), on_text=heard.append)
    assert heard == ["Two", "Two  words", "Two  words\nand", "Two  words\nand a", "Two  words\nand a line."]


def test_a_text_scores_the_share_of_the_words_that_it_has():
    texts = ["The price.", "The red door has a price", "예산 3억 원", ""]
    assert ScriptedReranker().score("the door's PRICE", texts).tolist() == [0.5, 0.75, 0.0, 0.0]


def test_the_scripted_answer_has_half_of_the_probability_and_shorter_ones_more_of_the_rest():
    chat = ScriptedChat([Rule(answer="yes")])
    asked = ChatRequest(messages=(Message(role="user", content=(Text(text="x"),)),))
    told = dict(chat.answer_log_probs([(asked, answer) for answer in ("yes", "no", "")]))
    assert [math.exp(told[number]) for number in range(3)] == pytest.approx([0.5, 2**-20, 0.25])
    assert chat.calls == 3
