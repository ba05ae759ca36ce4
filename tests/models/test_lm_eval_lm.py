from __future__ import annotations

from typing import Any

import pytest

from models.lm_eval_lm import HarnessLM
from models.model_errors import ModelUnavailable
from models.protocols import ChatRequest, ChatResponse, Message, Text

pytest.importorskip("lm_eval")
from lm_eval.api.model import LM


class Echo(LM):
    """Gives back what it was asked, so that a test sees it."""

    def __init__(self, prefix: str = "", batch_size: int = 1, api_key: str = "") -> None:
        super().__init__()
        self.prefix = prefix

    def generate_until(self, requests: Any) -> list[str]:
        if any("fail" in request.args[0] for request in requests):
            raise OSError("the disk is gone")
        return [f"{self.prefix}{prompt}|{kwargs}" for prompt, kwargs in (request.args for request in requests)]

    def loglikelihood(self, requests: Any) -> list[tuple[float, bool]]:
        return [(-float(len(continuation)), True) for _, continuation in (request.args for request in requests)]

    def loglikelihood_rolling(self, requests: Any) -> list[float]:
        return [-float(len(text)) for (text,) in (request.args for request in requests)]

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return "".join(f"<{turn['role']}>{turn['content']}" for turn in chat_history)


NAME = f"{__name__}.Echo"


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> HarnessLM:
    import sys

    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__, type(sys)(__name__)))
    monkeypatch.setattr(sys.modules[__name__], "Echo", Echo, raising=False)
    return HarnessLM(NAME, {"prefix": ">"})


def request(prompt: str = "Hi", **fields: Any) -> ChatRequest:
    message = Message(role="user", content=(Text(text=prompt),))
    return ChatRequest.model_validate({"messages": (message,), **fields})


def test_a_request_becomes_the_harness_arguments(echo: HarnessLM):
    answer = echo.complete(request(temperature=0.5, top_p=0.9, max_tokens=7, stop=("Q:",)))
    sent = {"until": ["Q:"], "max_gen_toks": 7, "do_sample": True, "temperature": 0.5, "top_p": 0.9}
    assert answer.sent == sent
    assert answer.text == ">" + f"<user>Hi|{sent}".partition("Q:")[0]


def test_many_kinds_of_sampling_are_answered_each(echo: HarnessLM):
    asked = [request(f"{number}", temperature=number % 2, max_tokens=number + 1) for number in range(5)]
    found = dict(echo.complete_many(asked))
    for number in range(5):
        answer = found[number]
        assert isinstance(answer, ChatResponse)
        assert answer.text.startswith(f"><user>{number}|")
        assert answer.sent["max_gen_toks"] == number + 1


def test_likelihoods_are_those_of_the_class(echo: HarnessLM):
    assert list(echo.loglikelihood([("a", "bcd")])) == [(0, (-3.0, True))]
    assert list(echo.loglikelihood_rolling(["abcd", "a"])) == [(0, -4.0), (1, -1.0)]


def test_what_it_raises_is_one_sentence(echo: HarnessLM):
    with pytest.raises(ModelUnavailable, match="Echo failed with OSError: the disk is gone"):
        echo.complete(request("fail"))


def test_the_id_holds_the_arguments_and_no_secret(echo: HarnessLM):
    ids = [HarnessLM(NAME, args).id for args in ({"prefix": ">"}, {"prefix": "<"}, {"prefix": ">", "api_key": "sk"})]
    assert ids[0] == ids[2] == echo.id != ids[1]
    assert echo.id.startswith(f"lm_eval:{NAME}@")
