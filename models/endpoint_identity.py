"""Which weights answer at an endpoint: its address, what it says of its model, and how it answers fixed short prompts.

A name proves nothing: other weights may be served under it. What a server says of two checkpoints may be the same too,
so that the answers to the probes decide.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, JsonValue

from models.model_errors import RequestRefused, TransientModelError
from models.openai import OpenAIChat
from models.protocols import ChatRequest, Message, Text

PROBES = (
    "Write one sentence about the sea.",
    "Name an animal, and say what it eats.",
    "바다에 대해 한 문장을 쓰세요.",
    "What is a good name for a red boat?",
)
"""Prompts with many fitting answers, in which weights differ soonest. Another text here makes every endpoint new."""
PROBE_TOKENS, TOP_TOKENS = 16, 5
MOVED = 0.25
"""Change of the log-probability of a first token (natural) that shows other weights; batches alone move it by .05."""
LIKELY = -3.0
"""Only first tokens at least so likely (natural) are compared: in the tail the rounding of bf16 shows."""
CARD_FIELDS = ("created", "root", "parent", "owned_by", "digest", "meta")
"""What OpenAI, vLLM, llama.cpp, Ollama and LM Studio say of the weights; not how long a context they give them."""
SETTLED_S = 3600.0
"""`created` counts once it is so old: vLLM and llama.cpp tell the time of the request there."""


UNTOLD = "{}: its answers to the probes tell no weights apart (none, or others each time); its name is trusted."


class Probe(BaseModel):
    """The answer to one of PROBES."""

    model_config = ConfigDict(frozen=True)
    text: str | None
    """None: the request was refused."""
    log_probs: dict[str, float] = {}
    """Likeliest first tokens → natural log-probability; empty where the endpoint tells none."""
    steady: bool = True
    """False: the same weights have answered otherwise."""

    def agrees_with(self, probe: Probe) -> bool:
        """Return whether the same weights may have given both: equal texts, and likely first tokens hardly moved."""
        shared = self.log_probs.keys() & probe.log_probs.keys()
        moved = any(
            abs(self.log_probs[token] - probe.log_probs[token]) > MOVED
            for token in shared
            if max(self.log_probs[token], probe.log_probs[token]) > LIKELY
        )
        return self.text == probe.text and not moved


class Fingerprint(BaseModel):
    """Evidence of which weights answer to one name at one address: the server's card and its answers to probes."""

    model_config = ConfigDict(frozen=True)
    address: str
    name: str
    card: dict[str, JsonValue]
    """The server's entry for this model, reduced to CARD_FIELDS."""
    probes: tuple[Probe, ...]
    seen_at: datetime

    @property
    def digest(self) -> str:
        """Twelve hex digits that tell these weights from others, at the same address and name or elsewhere."""
        texts = [probe.text if probe.steady else None for probe in self.probes]
        card = {name: value for name, value in self.card.items() if name != "created"}
        plain = json.dumps([self.address, self.name, card, texts], sort_keys=True)
        return hashlib.sha256(plain.encode()).hexdigest()[:12]

    @property
    def is_telling(self) -> bool:
        """Whether a probe would show other weights: one with words that were the same twice."""
        return any(probe.steady and probe.text for probe in self.probes)

    def differences(self, now: Fingerprint) -> Iterator[str]:
        """Yield in words what has changed; unsteady probes, and fields that only one card has, do not count."""
        for name in self.card.keys() & now.card.keys():
            if self.card[name] != now.card[name]:
                yield f"its server says {name} {now.card[name]!r}, and said {self.card[name]!r}"
        pairs = list(zip(self.probes, now.probes, strict=False))
        numbers = [
            str(number)
            for number, (before, after) in enumerate(pairs, start=1)
            if before.steady and after.steady and not before.agrees_with(after)
        ]
        if numbers:
            said = "probe {} of {} differs" if len(numbers) == 1 else "probes {} of {} differ"
            yield said.format(", ".join(numbers), len(pairs))

    def marked_unsteady(self, again: Fingerprint) -> Fingerprint:
        """Return this fingerprint with those probes unsteady that `again`, of the same weights, answers otherwise."""
        probes = tuple(
            before.model_copy(update={"steady": before.steady and before.agrees_with(after)})
            for before, after in zip(self.probes, again.probes, strict=True)
        )
        return self.model_copy(update={"probes": probes})


class Identity(BaseModel):
    """The fingerprint of a model, and what a person has to know about it."""

    fingerprint: Fingerprint
    is_new: bool = False
    remarks: tuple[str, ...] = ()


def identify(chat: OpenAIChat, known: Sequence[Fingerprint]) -> Identity:
    """Ask who answers: one list of models and at most eight short requests. Raises ModelError.

    known: the fingerprints of this name at this address, oldest first. An endpoint that is away is the one seen last.
    """
    try:
        now = take_fingerprint(chat)
    except TransientModelError as error:
        if not known:
            raise
        day = f"{known[-1].seen_at:%F %R} UTC"
        return Identity(fingerprint=known[-1], remarks=(f"{error} Its weights are taken for those of {day}.",))
    if match := next((before for before in reversed(known) if not list(before.differences(now))), None):
        return Identity(fingerprint=match, remarks=() if match.is_telling else (UNTOLD.format(chat.id),))
    # once more: where the same weights give two answers, a difference proves nothing
    steady = now.marked_unsteady(take_fingerprint(chat))
    if not known:
        return Identity(fingerprint=steady, is_new=True, remarks=() if steady.is_telling else (UNTOLD.format(chat.id),))
    day, changes = f"{known[-1].seen_at:%F %R} UTC", "; ".join(known[-1].differences(now))
    if match := next((before for before in reversed(known) if not list(before.differences(steady))), None):
        suspicion = f"{chat.id}: {changes} since {day}, but the endpoint answers otherwise from one time to the next"
        return Identity(fingerprint=match, remarks=(f"{suspicion}; its weights are taken for the same.",))
    remark = f"{chat.id}: weights changed since {day}: {changes}. It is asked anew."
    return Identity(fingerprint=steady, is_new=True, remarks=(remark,))


def take_fingerprint(chat: OpenAIChat) -> Fingerprint:
    """Ask an endpoint for its list of models and for the answers to PROBES. Raises ModelError."""
    card = {name: value for name, value in chat.endpoint.read_card().items() if name in CARD_FIELDS}
    created = card.get("created")
    if not isinstance(created, int | float) or time.time() - created < SETTLED_S:
        card.pop("created", None)
    with ThreadPoolExecutor(len(PROBES), thread_name_prefix="probes") as threads:
        probes = tuple(threads.map(lambda prompt: _ask_probe(chat, prompt), PROBES))
    address, name = chat.endpoint.address, chat.endpoint.model
    return Fingerprint(address=address, name=name, card=card, probes=probes, seen_at=datetime.now(UTC))


def _ask_probe(chat: OpenAIChat, prompt: str) -> Probe:
    """Return the endpoint's answer to a prompt, without text where it refuses the request. Raises other ModelErrors."""
    question = Message(role="user", content=(Text(text=prompt),))
    request = ChatRequest(messages=(question,), max_tokens=PROBE_TOKENS, seed=0, top_logprobs=TOP_TOKENS)
    try:
        answer = chat.complete(request)
    except RequestRefused:
        return Probe(text=None)
    return Probe(text=answer.text, log_probs=answer.top_logprobs)
