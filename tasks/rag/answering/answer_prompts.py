"""Builds the requests to models: classify a question, answer it from passages and cells, reword an answer.

Equal inputs give equal requests, whose digests are the keys of the response store.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from importlib import resources
from typing import NamedTuple

from models.protocols import ChatRequest, Message, Text
from tasks.language.sentences import disarm_marks, language_of, split_sentences, strip_marks
from tasks.rag.answers import RetrievalPlan, Turn
from tasks.rag.reading.reader import ShownCell
from tasks.rag.retrieval.search import Hit

MOST_CONTEXT_TOKENS = 6_000
"""Most tokens of passages in a request."""
LABEL_TOKENS = 12
"""Tokens of the fences and line breaks around a block."""
FEWEST_TOKENS = 40
"""Tokens below which a block is left out instead of cut."""
MOST_LABEL_CHARS = 240
_TOKENS_PER_CHAR = (
    (re.compile(r"[가-힣ㄱ-ㆎᄀ-ᇿ]"), 0.8),  # Hangul
    (re.compile(r"[぀-ヿ㐀-鿿]"), 1.0),  # kana, Han
    (re.compile(r"[A-Za-z]"), 0.25),
    (re.compile(r"[ \t]"), 0.1),
    (re.compile(r"\d"), 0.6),
)
_OTHER_TOKENS = 0.7


class Block(NamedTuple):
    """A chunk as the model reads it, with its number and label."""

    n: int
    """The number by which the answer cites it: [n]."""
    label: str
    text: str
    hit: Hit


class Context(NamedTuple):
    """The blocks that the model reads, and the hits that had no room."""

    blocks: tuple[Block, ...]
    dropped: tuple[Hit, ...]
    tokens: int
    """Estimated tokens of the blocks, upwards."""

    @property
    def hits(self) -> tuple[Hit, ...]:
        """The hits of the blocks; block number n is at position n - 1."""
        return tuple(block.hit for block in self.blocks)


def pack_context(hits: Sequence[Hit], *, most_tokens: int, per_document: bool) -> Context:
    """Return the blocks that fit into `most_tokens`, best first; only the first one may be cut.

    per_document: the best chunk of each document comes first, then the second best of each, and so on.
    """
    blocks: list[Block] = []
    dropped: list[Hit] = []
    tokens_left = most_tokens
    turns, order = Counter[str](), list[tuple[int, int]]()
    for rank, hit in enumerate(hits):  # the best hit of every document, then the second best of every, …
        order.append((turns[hit.chunk.document] if per_document else 0, rank))
        turns[hit.chunk.document] += 1
    for hit in (hits[rank] for _, rank in sorted(order)):
        label = label_of(hit)
        room = tokens_left - estimate_tokens(label) - LABEL_TOKENS
        text = hit.chunk.text
        if len(text) * 0.1 > room or estimate_tokens(text) > room:  # no sign costs less than a tenth of a token
            text = "" if blocks else _cut_to_room(hit, room)  # so that the context is never empty
        if not text:
            dropped.append(hit)
            continue
        blocks.append(Block(len(blocks) + 1, label, text, hit))
        tokens_left = room - estimate_tokens(text)
    # rows of wide tables stand as sentences below them, where there is room: a model then reads no column wrong
    for position, block in enumerate(blocks):
        chunk = block.hit.chunk
        named_rows = sum(row.count(": ") >= 2 for row in chunk.sentences)  # at least three columns, under a header
        wide = block.text == chunk.text and 2 * named_rows > len(chunk.sentences)
        rows = "\n".join(chunk.sentences) if wide else ""
        cost = estimate_tokens(rows) + 1 if rows else 0
        if rows and cost <= tokens_left:
            blocks[position], tokens_left = block._replace(text=f"{block.text}\n\n{rows}"), tokens_left - cost
    return Context(tuple(blocks), tuple(dropped), most_tokens - tokens_left)


def estimate_tokens(text: str) -> int:
    """Return an upper estimate of the tokens that a model counts.

    The prices are the higher of those that o200k (GPT-4o, GPT-5) and Qwen's tokenizer give for reports with tables.
    """
    total, counted = 0.0, 0
    for pattern, tokens in _TOKENS_PER_CHAR:
        matches = len(pattern.findall(text))
        total += matches * tokens
        counted += matches
    return math.ceil(total + (len(text) - counted) * _OTHER_TOKENS)


def label_of(hit: Hit) -> str:
    """Return where a hit stands, in 240 characters at most: `reports/annual.pdf, page 12, Item 7 › Results`."""
    chunk = hit.chunk
    page = f"page {chunk.page}" if chunk.page is not None else ""
    parts = (hit.document_name, page, chunk.cells or "", " › ".join(chunk.heading_path))
    return " ".join(", ".join(part for part in parts if part).split())[:MOST_LABEL_CHARS]


def _cut_to_room(hit: Hit, room: int) -> str:
    """Return the first sentences or rows (header and unit come first) that fit; "" for room below FEWEST_TOKENS."""
    if room < FEWEST_TOKENS:
        return ""
    text = hit.chunk.text[: 10 * room]
    end = used = 0
    for start, stop in split_sentences(text):
        used += estimate_tokens(text[end:start]) + estimate_tokens(text[start:stop])
        if used > room:
            break
        end = stop
    if end:
        return text[:end]
    while estimate_tokens(text) > room:  # one sentence that is longer than all the room
        text = text[: len(text) // 2]
    return text


CLASSIFY_TOKENS = 32
ANSWER_TOKENS = 2_000
"""Most tokens of an answer; a model that reasons before it answers counts its reasoning too."""
FEWEST_REWRITE_TOKENS = 256
MOST_TURNS = 3
"""Turns of the conversation that a model reads, the last ones."""
MOST_TURN_CHARS = 400
"""Most characters of the question and of the answer of a turn."""
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
    """Return the request for the type of the question, one of four."""
    parts = [*_conversation(history), ("question", question)]
    return _request("classify.txt", _fenced(parts), max_tokens=CLASSIFY_TOKENS)


def answer_request(
    question: str, context: Context, history: Sequence[Turn], plan: RetrievalPlan, cells: Sequence[ShownCell] = ()
) -> ChatRequest:
    """Return the request for an answer with the numbers of its passages, or for what to work out over which cells."""
    passages = [(f"[{block.n}] {disarm_marks(_clean(block.label))}", block.text) for block in context.blocks]
    listed = [("cells", "\n".join(f"{cell.id}  {cell.text}" for cell in cells))] if cells else []
    parts = [*passages, *listed, *_conversation(history), ("question", question)]
    task = _TASKS[plan.query_type]
    language = "Answer in Korean." if language_of(question) == "ko" else "Answer in the language of the question."
    ending = " ".join(part for part in (task, language, "Cite the passages: [1].") if part)
    return _request("answer.txt", f"{_fenced(parts)}\n\n{ending}", max_tokens=ANSWER_TOKENS)


def rewrite_request(question: str, draft: str) -> ChatRequest:
    """Return the request for the same answer in better words."""
    max_tokens = max(FEWEST_REWRITE_TOKENS, min(ANSWER_TOKENS, 2 * estimate_tokens(draft)))
    text = _fenced([("question", question), ("answer", draft)], keep_marks=("answer",))
    return _request("rewrite.txt", text, max_tokens=max_tokens)


def _request(prompt: str, text: str, *, max_tokens: int) -> ChatRequest:
    """Return a request at temperature 0 with the rules of a file in `prompts/` and a text of the user."""
    rules = (resources.files("tasks.rag") / "prompts" / prompt).read_text("utf-8").strip()
    system, user = (Text(text=rules),), (Text(text=text),)
    messages = (Message(role="system", content=system), Message(role="user", content=user))
    return ChatRequest(messages=messages, temperature=0.0, max_tokens=max_tokens)


def _conversation(history: Sequence[Turn]) -> list[tuple[str, str]]:
    """Return the last three turns as one section, short and without marks, which refer to other passages; or none."""

    def short(text: str) -> str:
        flat = " ".join(text.split())
        return flat if len(flat) <= MOST_TURN_CHARS else f"{flat[: MOST_TURN_CHARS - 1]}…"

    turns = [f"Q: {short(turn.question)}\nA: {short(strip_marks(turn.answer))}" for turn in history[-MOST_TURNS:]]
    return [("conversation", "\n".join(turns))] if turns else []


def _fenced(parts: Sequence[tuple[str, str]], *, keep_marks: Sequence[str] = ()) -> str:
    """Return each text between two lines that begin with a fence: a word in none of them, equal for equal texts."""
    cleaned = [(label, _clean(text) if label in keep_marks else disarm_marks(_clean(text))) for label, text in parts]
    # a document cannot foresee its fence; equal texts have equal ones, so that the store knows the request
    everything = "\x00".join(f"{label}\x00{text}" for label, text in cleaned)
    fence = f"#{blake2b(everything.encode(errors='replace'), digest_size=8).hexdigest()}"
    while fence in everything:
        fence = f"#{blake2b((fence + everything).encode(errors='replace'), digest_size=8).hexdigest()}"
    return "\n\n".join(f"{fence} {label}\n{text}\n{fence} end" for label, text in cleaned)


def _clean(text: str) -> str:
    """Return the text without invisible characters, and without what a chat template would read as its own marks."""
    # what no reader of the page sees may hold instructions
    visible = "".join(
        sign for sign in text if sign in "\n\t" or unicodedata.category(sign) not in ("Cc", "Cf", "Cs", "Co")
    )
    # <|im_end|> or [/INST] of a document would end the turn of the user
    return _TEMPLATE_SIGNS.sub(lambda match: "‹" if match.group() != ">" else "›", visible)
