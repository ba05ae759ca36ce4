"""Answers that were recorded before: a file is asked in place of a model."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from models.model_errors import ModelUnavailable, RequestRefused
from models.prompts import cut, raw_prompt, sendable
from models.protocols import ChatRequest, ChatResponse
from models.weight_files import digest_files

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
            if not isinstance(text := row.get("response"), str):
                raise ModelUnavailable(f'{place}: there is no `response`; write {{"prompt": "…", "response": "…"}}')
            self._answers[key] = text
            likely: Any = row.get("top_logprobs") or {}
            if not isinstance(likely, dict) or not all(isinstance(one, int | float) for one in likely.values()):
                raise ModelUnavailable(f"{place}: `top_logprobs` must hold a log-probability for each token")
            if likely:
                self._likelihoods[key] = likely

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """The recorded answer, up to a stop of the request. Raises RequestRefused for a prompt that has none."""
        if self.is_by_item:
            raise RequestRefused(
                f"{self.path} holds answers by the id of an item, and this is a prompt; evaluate a benchmark with "
                "it, or record lines with `prompt` and `response`."
            )
        turns = [(message.role, raw_prompt(ChatRequest(messages=(message,)))) for message in request.messages]
        # under which the answer may be recorded, the closest first
        keys = (
            _digest(tuple(turns)),
            _digest("\n\n".join(text for _, text in turns)),
            _digest("\n\n".join(text for role, text in turns if role == "user")),
        )
        key = next((key for key in keys if key in self._answers), None)
        if key is None:
            begins = " ".join(raw_prompt(request).split())[:SHOWN_CHARS]
            raise RequestRefused(f"{self.path} has no answer to the prompt that begins {begins!r}; record one.")
        text = cut(self._answers[key], request.stop)
        if on_text is not None:
            on_text(text)
        likely = self._likelihoods.get(key, {}) if request.top_logprobs else {}
        return ChatResponse(text=text, finish_reason="stop", top_logprobs=likely)


def _key_of(row: dict[str, Any], place: str) -> str:
    prompt, messages = row.get("prompt"), row.get("messages")
    if isinstance(prompt, str):
        return _digest(sendable(prompt))
    try:
        if not messages:
            raise KeyError("messages")
        return _digest(tuple((str(turn["role"]), sendable(turn["content"])) for turn in messages))
    except (KeyError, TypeError, AttributeError):
        raise ModelUnavailable(
            f"{place}: there is neither a `prompt` nor `messages` with role and content; write "
            '{"prompt": "…", "response": "…"}'
        ) from None


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The JSON objects of a file, each with where it stands (`FILE:LINE`)."""
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


def _digest(prompt: str | tuple[tuple[str, str], ...]) -> str:
    return hashlib.sha256(json.dumps(prompt).encode()).hexdigest()
