"""Answers of one format from vLLM in process: even a model of random weights writes JSON then."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from models.backends import open_backend
from models.model_errors import RequestRefused
from tests.engines.test_vllm_text import asking


class Shape(BaseModel):
    """What the answers are held to."""

    colour: Literal["red", "green", "blue"]
    is_round: bool


def formatted(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"schema": schema}}


SHAPE = formatted(Shape.model_json_schema())
ASKED = [asking(f"Say it {number}", max_tokens=230) for number in range(4)]


@pytest.fixture(scope="module")
def free(text_folder: Path, small: dict[str, Any]) -> Any:
    return open_backend("vllm", args={"pretrained": str(text_folder), **small})


@pytest.fixture(scope="module")
def held(text_folder: Path, small: dict[str, Any]) -> Any:
    return open_backend("vllm", args={"pretrained": str(text_folder), **small, "response_format": SHAPE})


def test_answers_keep_to_the_schema(free: Any, held: Any):
    answers = dict(held.complete_many(ASKED))
    assert all(Shape.model_validate_json(answer.text) for answer in answers.values())
    assert answers[0].sent["structured_outputs"] == {"json": Shape.model_json_schema()}
    with pytest.raises(ValueError, match="JSON"):
        Shape.model_validate_json(free.complete(ASKED[0]).text)


def test_a_format_is_part_of_the_name_and_no_other_engine(free: Any, held: Any):
    assert held.id.startswith(f"{free.id}@format=")
    assert dict(held.loglikelihood([("The answer is", " word1 word2")])) == dict(
        free.loglikelihood([("The answer is", " word1 word2")])
    )


def test_a_schema_that_is_none_is_refused_and_the_engine_goes_on(held: Any, text_folder: Path, small: dict[str, Any]):
    args: dict[str, Any] = {"pretrained": str(text_folder), **small, "response_format": formatted({"type": "nothing"})}
    with pytest.raises(RequestRefused, match="change response_format"):
        open_backend("vllm", args=args).complete(ASKED[0])
    assert Shape.model_validate_json(held.complete(ASKED[0]).text)
