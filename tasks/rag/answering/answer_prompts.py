"""What the models are asked: to sort a question, to answer it from passages, to reword an answer.

Equal inputs give equal requests: their digests are keys of the response store. Text of documents, of the conversation
and of the question stands between lines that begin with a fence, a word that none of it holds.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from importlib import resources

from models.protocols import ChatRequest, Message, Text
from tasks.language.sentences import disarmed, language_of, without_marks
from tasks.rag.answering.context import Context, estimated_tokens
from tasks.rag.answers import RetrievalPlan, Turn

CLASSIFY_TOKENS = 32
ANSWER_TOKENS = 2_000
"""A model that reasons before it answers counts its reasoning too."""
FEWEST_REWRITE_TOKENS = 256
MOST_TURNS = 3
"""Turns of the conversation that a model is shown, the last ones."""
MOST_TURN_CHARS = 400
"""Characters of each question and each answer of a turn."""
_TASKS = {
    "single": "",
    "followup": "The question goes on with the conversation above.",
    "multi": "The question asks about several documents: answer for each of them in a line of its own that names it.",
    "compare": "The question compares: tell for each side what the passages say, and then the difference that the "
    "question asks for. Say so if the passages tell nothing of a side.",
}
_TEMPLATE_SIGNS = re.compile(r"<(?=\|)|(?<=\|)>|\[(?=/?(?:INST|SYS)\])", re.IGNORECASE)
"""Where the chat templates of models begin their own marks."""


def classify_request(question: str, history: Sequence[Turn]) -> ChatRequest:
    """Asks for one of the four kinds."""
    parts = [*_conversation(history), ("question", question)]
    return _request("classify.txt", _fenced(parts), max_tokens=CLASSIFY_TOKENS)


def answer_request(question: str, context: Context, history: Sequence[Turn], plan: RetrievalPlan) -> ChatRequest:
    """Asks for an answer with the numbers of the passages that it rests on."""
    passages = [(f"[{block.n}] {disarmed(_clean(block.label))}", block.text) for block in context.blocks]
    parts = [*passages, *_conversation(history), ("question", question)]
    task = _TASKS[plan.query_type]
    language = "Answer in Korean." if language_of(question) == "ko" else "Answer in the language of the question."
    ending = " ".join(part for part in (task, language, "Cite the passages: [1].") if part)
    return _request("answer.txt", f"{_fenced(parts)}\n\n{ending}", max_tokens=ANSWER_TOKENS)


def rewrite_request(question: str, draft: str) -> ChatRequest:
    """Asks for the same answer in better words."""
    most = max(FEWEST_REWRITE_TOKENS, min(ANSWER_TOKENS, 2 * estimated_tokens(draft)))
    text = _fenced([("question", question), ("answer", draft)], keep_marks=("answer",))
    return _request("rewrite.txt", text, max_tokens=most)


def _request(prompt: str, text: str, *, max_tokens: int) -> ChatRequest:
    messages = (_message("system", _prompt(prompt)), _message("user", text))
    return ChatRequest(messages=messages, temperature=0.0, max_tokens=max_tokens)


def _message(role: str, text: str) -> Message:
    return Message.model_validate({"role": role, "content": (Text(text=text),)})


@cache
def _prompt(name: str) -> str:
    return (resources.files("tasks.rag") / "prompts" / name).read_text(encoding="utf-8").strip()


def _conversation(history: Sequence[Turn]) -> list[tuple[str, str]]:
    """The last turns, shortened; the marks of their answers named other passages."""
    turns = [f"Q: {_short(turn.question)}\nA: {_short(without_marks(turn.answer))}" for turn in history[-MOST_TURNS:]]
    return [("conversation", "\n".join(turns))] if turns else []


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= MOST_TURN_CHARS else f"{flat[: MOST_TURN_CHARS - 1]}…"


def _fenced(parts: Sequence[tuple[str, str]], *, keep_marks: Sequence[str] = ()) -> str:
    """Every text between two lines with the fence; the first says what it is."""
    cleaned = [(label, _clean(text) if label in keep_marks else disarmed(_clean(text))) for label, text in parts]
    fence = _fence(cleaned)
    return "\n\n".join(f"{fence} {label}\n{text}\n{fence} end" for label, text in cleaned)


def _fence(parts: Sequence[tuple[str, str]]) -> str:
    """A word that stands in none of the texts, and is the same for the same texts."""
    told = "\x00".join(f"{label}\x00{text}" for label, text in parts)
    fence = f"#{blake2b(told.encode(errors='replace'), digest_size=8).hexdigest()}"
    while fence in told:
        fence = f"#{blake2b((fence + told).encode(errors='replace'), digest_size=8).hexdigest()}"
    return fence


def _clean(text: str) -> str:
    """Without signs that cannot be seen, and without what a chat template would read as its own."""
    visible = "".join(
        sign for sign in text if sign in "\n\t" or unicodedata.category(sign) not in ("Cc", "Cf", "Cs", "Co")
    )
    return _TEMPLATE_SIGNS.sub(lambda match: "‹" if match.group() != ">" else "›", visible)
