"""Questions about several documents, comparisons and follow-ups over the samples, answered without any model."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from flows.running.answer_models import open_assistant
from tasks.rag.answers import Answered, AnswerSettings, Turn
from tasks.rag.planning.plan import turn_of
from tests.command import run_here

pytestmark = [pytest.mark.engine, pytest.mark.slow]

CONVERSATIONS = Path(__file__).parents[1] / "samples" / "conversations.jsonl"
OTHERWISE = {"multi-05"}
"""It cites the cash flow statement, `(64,512)` in thousands, where the gold is a sentence with $64.5 million."""


@pytest.fixture(scope="module")
def index(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("samples") / "index"
    done = run_here(
        "rag", "index", samples, "--index", out, "--metadata", samples / "metadata.csv", "--set", "reading.ocr=off"
    )
    assert done.code == 3, done.stderr  # one document is encrypted
    return out


def test_answers_hold_what_was_asked_and_cite_its_pages(index: Path) -> None:
    missed: dict[str, str] = {}
    everything = AnswerSettings(max_wrong=1.0)  # how sure an answer must be is another matter
    with open_assistant(index, llm="none", answers=everything) as assistant:
        for line in CONVERSATIONS.read_text().splitlines():
            conversation = json.loads(line)
            history: list[Turn] = []
            for turn in conversation["turns"]:
                answered = assistant.ask(turn["question"], history=history)
                history.append(turn_of(answered))
                if not is_right(answered, turn, every_page=conversation["kind"] != "followup"):
                    missed[conversation["id"]] = answered.answer
    assert set(missed) == OTHERWISE, missed


def is_right(answered: Answered, turn: dict[str, Any], *, every_page: bool) -> bool:
    """Whether the answer holds all that it must, and cites the gold pages, or one of them."""
    cited = [[citation.document, citation.page] in turn["pages"] for citation in answered.citations]
    told = all(_bare(wanted) in _bare(answered.answer) for wanted in turn["answer"])
    gold = [page for page in turn["pages"] if page in [[one.document, one.page] for one in answered.citations]]
    return told and (len(gold) == len(turn["pages"]) if every_page else any(cited) or not turn["pages"])


def _bare(text: str) -> str:
    return re.sub(r"[\s,]", "", text)
