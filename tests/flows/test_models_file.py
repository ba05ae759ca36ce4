"""A model of the file in TRIVET_MODELS has one name in all pipelines, and steps get what it stands for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.rag import IndexConfig
from flows.running.answer_models import models_of
from flows.running.evaluation_flags import read_evaluation
from flows.running.lever_config import LeverConfig
from models.protocols import ChatRequest, Message, Text
from models.registry import VARIABLE
from tasks import resources
from tasks.budget import Prices
from tasks.evaluation.running.open_models import open_model, release_models
from tests.models.server import MODEL, serving


@pytest.fixture(autouse=True)
def _models() -> Iterator[None]:
    """No test finds the models of another."""
    yield
    release_models()


@pytest.fixture
def spelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    place = {"api_key_env": "TEAM_KEY", "base_url": "http://127.0.0.1:9/v1"}
    mine = {"backend": "openai", "name": "m", "price": {"prompt": 0.15, "answer": 0.6}, **place}
    (tmp_path / "models.yaml").write_text(json.dumps({"mine": mine, "free": {"backend": "scripted"}}))
    monkeypatch.setenv(VARIABLE, str(tmp_path / "models.yaml"))
    return f"openai:m,{json.dumps(place)}"


def test_who_answers_questions_may_be_of_the_file(spelled: str) -> None:
    models = models_of("mine")
    assert (models.large, models.small) == (spelled, spelled)


def test_the_judge_of_demonstrations_may_be_of_the_file(spelled: str) -> None:
    chosen = LeverConfig.model_validate({"judge": "mine", "until": "pools"})
    assert chosen.judge == spelled
    assert LeverConfig.model_validate(chosen.model_dump()) == chosen


def test_what_describes_figures_may_be_of_the_file(spelled: str, tmp_path: Path) -> None:
    chosen = IndexConfig(documents=tmp_path, index=tmp_path, vlm="mine")
    assert chosen.vlm == spelled
    assert IndexConfig.model_validate(chosen.model_dump()) == chosen


@pytest.mark.usefixtures("spelled")
def test_a_limit_on_the_cost_goes_by_the_price_of_the_file_where_none_is_given(tmp_path: Path) -> None:
    def prices(vlm: str, **spending: Any) -> Any:
        given = {"documents": tmp_path, "index": tmp_path, "vlm": vlm, "spending": spending}
        return IndexConfig.model_validate(given).spending.prices

    judged = LeverConfig.model_validate({"judge": "mine", "until": "pools", "spending": {"max_cost": 3}})
    own = {"prompt": 1, "answer": 2}
    assert judged.spending.prices == prices("mine", max_cost=3) == Prices(prompt=0.15, answer=0.6)
    assert prices("mine", max_cost=3, prices=own) == Prices(prompt=1, answer=2)
    assert prices("mine", max_calls=3) is None, "the price is no part of how a model answers"
    for nameless in ("free", "scripted"):
        with pytest.raises(ValueError, match="`price` of the model in the file that TRIVET_MODELS names"):
            prices(nameless, max_cost=3)


def test_all_pipelines_ask_the_same_model_with_the_same_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server:
        file = tmp_path / "models.yaml"
        file.write_text(
            f"mine: {{backend: curator, name: hosted_vllm/{MODEL}, base_url: '{server.base_url}', api_key_env: TEAM}}"
        )
        monkeypatch.setenv(VARIABLE, str(file))
        monkeypatch.setenv("TEAM", "sk-team")
        flags = {"model": "mine", "tasks": "AIME24", "output_path": Path("o")}
        chats = [
            open_model(read_evaluation(flags, None).model),
            resources.vision(models_of("mine").large or ""),
        ]
        said = ChatRequest(messages=(Message(role="user", content=(Text(text="Hello"),)),))
        answers = {chat.complete(said).text for chat in chats}
        assert {chat.id for chat in chats} == {f"curator:hosted_vllm/{MODEL}"}
        assert len(answers) == 1
        assert [asked["headers"]["authorization"] for asked in server.requests] == ["Bearer sk-team"] * 2
