"""Models that follow a script or answer from a recording: without weights and without a network.

Scripts are for tests, demonstrations and dry runs. Both pass the same contract tests as the real backends. Their
answers are pure functions of the request.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import re
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from models.model_errors import ModelUnavailable, RequestRefused
from models.prompts import Listener, cut_at_stops, picture_size, pictures_of, raw_prompt, replace_surrogates
from models.protocols import ChatRequest, ChatResponse, Message, Text
from models.weight_files import digest_files


class Rule(BaseModel):
    """An answer, and the requests that get it; what is not set matches everything."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    answer: str
    top_logprobs: dict[str, float] = Field(default_factory=dict)
    """First token → its log-probability, told where a request asks for them."""
    prompt: str | None = None
    """Regular expression, searched in the texts of all messages, one per line."""

    @field_validator("prompt")
    @classmethod
    def _compiles(cls, prompt: str | None) -> str | None:
        """Return the pattern, or None, as it is. Raises ValueError for no regular expression."""
        try:
            re.compile(prompt or "")
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from error
        return prompt


class ScriptedChat:
    """Answers by the first rule that fits; without one, describes the last image, or restates the question."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.rules = tuple(rules)
        self.id = "scripted"
        if self.rules:  # names the script, so that answers of another one are not taken for its own
            plain_rules = json.dumps([rule.model_dump() for rule in self.rules], sort_keys=True)
            digest = hashlib.sha256(plain_rules.encode()).hexdigest()
            self.id = f"scripted:{digest[:16]}"
        self.calls = 0
        """Requests answered so far, by all threads together; an answer whose likelihood was asked for is one too."""
        self._lock = threading.Lock()

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """Return the scripted answer, cut at a stop and to `max_tokens` words.

        Raises RequestRefused for a request without messages, and for a picture that is none.
        on_text: called with one word more each time.
        """
        if not request.messages:
            raise RequestRefused("The request has no messages; give at least one.")
        for png in pictures_of(request.messages):
            picture_size(png)
        with self._lock:
            self.calls += 1
        answer = cut_at_stops(self._answer(request).rstrip(), request.stop)
        words = _words(answer)
        spoken = words[: request.max_tokens]
        text = answer if spoken == words else "".join(spoken).rstrip()
        rule = self._rule(request)
        if on_text is not None:
            listener = Listener(on_text, ())
            for count in range(1, len(spoken) + 1):
                listener("".join(spoken[:count]).rstrip())
            listener.end(text)
        return ChatResponse(
            text=text,
            finish_reason="stop" if spoken == words else "length",
            prompt_tokens=len(_words(_prompt_text(request.messages))),
            completion_tokens=len(spoken),
            top_logprobs=rule.top_logprobs if rule and request.top_logprobs else {},
        )

    def answer_log_probs(self, pairs: Sequence[tuple[ChatRequest, str]]) -> Iterator[tuple[int, float]]:
        """Yield each log-probability with its number: one half for the scripted answer, the rest for all others."""
        for number, (request, answer) in enumerate(pairs):
            with self._lock:
                self.calls += 1
            size = len(answer.encode("utf-8", "replace"))  # 256ⁿ texts of n bytes at 2^-(9n+2) sum to one half
            yield number, -math.log(2) * (1 if answer == self._answer(request) else 9 * size + 2)

    def _answer(self, request: ChatRequest) -> str:
        if rule := self._rule(request):
            return rule.answer
        pngs = list(pictures_of(request.messages))
        return describe_image(pngs[-1]) if pngs else f"You said: {_prompt_text(request.messages)}"

    def _rule(self, request: ChatRequest) -> Rule | None:
        prompt = _prompt_text(request.messages)
        return next((rule for rule in self.rules if rule.prompt is None or re.search(rule.prompt, prompt)), None)


class ScriptedReranker:
    """Scores a text by the share of the question's words that it has."""

    id = "scripted"

    def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the share of the question's words that each text has, (len(texts),); 1 where it has all of them."""
        question_words = _vocabulary(question)
        shares = [len(question_words & _vocabulary(text)) / max(1, len(question_words)) for text in texts]
        return np.array(shares, dtype=np.float32)


def read_rules(path: Path) -> tuple[Rule, ...]:
    """Return the rules of a JSON file: a list of objects with the fields of `Rule`. Raises ModelUnavailable."""
    try:
        return TypeAdapter(tuple[Rule, ...]).validate_json(path.read_bytes())
    except OSError as error:
        raise ModelUnavailable(f"The script {path} cannot be read ({error.strerror}); check the path.") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise ModelUnavailable(
            f"The script {path} is not a JSON list of rules (at {list(first['loc'])}: {first['msg']}); "
            'write it like [{"prompt": "budget", "answer": "…"}].'
        ) from error


def describe_image(png: bytes) -> str:
    """Return a made-up title, period and table; the same bytes always give the same. Raises RequestRefused."""
    seed = hashlib.sha256(png).digest()
    height, width = picture_size(png)
    rows = "\n".join(f"| {2020 + year} | {100 + seed[year]} |" for year in range(3))
    return (
        f"Title: Scripted figure {seed.hex()[:8]} ({width} × {height} px)\nPeriod: 2020–2022\nLegend: none\n\n"
        f"| Year | Amount (million) |\n|---|---|\n{rows}"
    )


def _prompt_text(messages: Sequence[Message]) -> str:
    return "\n".join(part.text for message in messages for part in message.content if isinstance(part, Text))


def _words(text: str) -> list[str]:
    """Return the words of a text with the blanks behind them: joined they give the text again."""
    return re.findall(r"\s*\S+\s*", text)


def _vocabulary(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


SHOWN_CHARS = 80
KINDS = (".jsonl", ".jsonl.gz")
BROKEN_GZIP = (gzip.BadGzipFile, EOFError, zlib.error)


class ReplayChat:
    """Answers by the exact prompt, from lines `{prompt | messages, response}` of a `.jsonl` or `.jsonl.gz` file.

    prompt: the texts of all messages with a blank line between two, or those of the user alone. messages: role and
    content of each. `top_logprobs` of a line (token → log-probability) are told to who asks for them. A folder, or a
    file of lines with an `id`, holds the answers to a benchmark's items: those are matched by item, so `complete`
    refuses. `id` holds a digest of the files. Raises ModelUnavailable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        files = sorted(file for kind in KINDS for file in path.glob(f"*{kind}")) if path.is_dir() else [path]
        if not files or not files[0].is_file():
            raise ModelUnavailable(f"there are no recorded answers at {path}; name a JSONL file, or a folder of them")
        self.id = f"replay:{path.name}@{digest_files(files)}"
        self._answers: dict[str, str] = {}  # digest of a prompt or of messages → answer
        self._likelihoods: dict[str, dict[str, float]] = {}  # the same → log-probabilities of first tokens
        self.is_by_item = path.is_dir()  # True when answers are found by the id of an item, which no request holds
        for place, row in [] if path.is_dir() else _rows(path):
            if row.keys() & {"id", "task_id"} and not row.keys() & {"prompt", "messages"}:
                self.is_by_item = True
                break
            key = _key_of(row, place)
            text = row.get("response")
            if not isinstance(text, str):
                raise ModelUnavailable(f'{place}: there is no `response`; write {{"prompt": "…", "response": "…"}}')
            self._answers[key] = text
            likely: Any = row.get("top_logprobs") or {}
            has_numbers = isinstance(likely, dict) and all(isinstance(value, int | float) for value in likely.values())
            if not has_numbers:
                raise ModelUnavailable(f"{place}: `top_logprobs` must hold a log-probability for each token")
            if likely:
                self._likelihoods[key] = likely

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """Return the recorded answer, up to a stop of the request. Raises RequestRefused for a prompt that has none."""
        if self.is_by_item:
            raise RequestRefused(
                f"{self.path} holds answers by the id of an item, and this is a prompt; evaluate a benchmark with "
                "it, or record lines with `prompt` and `response`."
            )
        turns = [(message.role, raw_prompt(ChatRequest(messages=(message,)))) for message in request.messages]
        keys = (  # under which the answer may be recorded, the closest first
            _digest_prompt(tuple(turns)),
            _digest_prompt("\n\n".join(text for _, text in turns)),
            _digest_prompt("\n\n".join(text for role, text in turns if role == "user")),
        )
        key = next((key for key in keys if key in self._answers), None)
        if key is None:
            begins = " ".join(raw_prompt(request).split())[:SHOWN_CHARS]
            raise RequestRefused(f"{self.path} has no answer to the prompt that begins {begins!r}; record one.")
        text = cut_at_stops(self._answers[key], request.stop)
        if on_text is not None:
            on_text(text)
        likely = self._likelihoods.get(key, {}) if request.top_logprobs else {}
        return ChatResponse(text=text, finish_reason="stop", top_logprobs=likely)


def _key_of(row: dict[str, Any], place: str) -> str:
    """Return the key of a line's prompt or messages. Raises ModelUnavailable for a line that has neither."""
    prompt, messages = row.get("prompt"), row.get("messages")
    if isinstance(prompt, str):
        return _digest_prompt(replace_surrogates(prompt))
    try:
        if not messages:
            raise KeyError("messages")
        return _digest_prompt(tuple((str(turn["role"]), replace_surrogates(turn["content"])) for turn in messages))
    except (KeyError, TypeError, AttributeError):
        raise ModelUnavailable(
            f"{place}: there is neither a `prompt` nor `messages` with role and content; write "
            '{"prompt": "…", "response": "…"}'
        ) from None


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the JSON objects of a file, each behind its place (`FILE:LINE`). Raises ModelUnavailable."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except ValueError as error:
                    raise ModelUnavailable(f"{path}:{number}: this is not JSON ({error})") from None
                if not isinstance(row, dict):
                    raise ModelUnavailable(f"{path}:{number}: this is no JSON object")
                yield f"{path}:{number}", row
    except BROKEN_GZIP as error:
        raise ModelUnavailable(f"{path}: the compressed file is damaged ({error})") from error


def _digest_prompt(prompt: str | tuple[tuple[str, str], ...]) -> str:
    return hashlib.sha256(json.dumps(prompt).encode()).hexdigest()
