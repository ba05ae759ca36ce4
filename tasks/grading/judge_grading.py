"""Grading by a model: fills its prompts, reads verdicts from its replies, and asks again where there is none.

Only the judge's reply is read, never its prompt, so an answer cannot rate itself. A judge that fails leaves its sample
unscored; no number stands for a failure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice
from string import Formatter
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from pydantic import JsonValue

from models.model_errors import ModelError
from models.protocols import ChatRequest, ChatResponse, Message, Text
from tasks.calls import Answer
from tasks.grading.grading_records import Item, Response, Sample, TemplateUnusable, make_sample
from tasks.grading.reading import Policy, visible_answer

if TYPE_CHECKING:
    from tasks.grading.math.math_grader import MathGrader
    from tasks.sandbox import Sandbox

DRAWS = 3
"""Most judgments to ask for until one has a verdict."""
WINDOW = 256
"""Responses held at once: judgments come in any order, samples leave in the order of the responses."""
KEPT_CHARS = 20_000
"""A longer judgment loses its middle in `Sample.detail`; the response store has the whole."""
SHOWN_CHARS = 80

Verdict = TypeVar("Verdict", float, str)
AskAll = Callable[[Iterable[tuple[Any, ChatRequest]]], Iterator[tuple[Any, Answer | ModelError]]]
"""Sends many requests at once and yields the answers as they come, each with its request's tag. A TransientModelError
or ContextOverflow takes the place of an answer; errors that stop the run are raised."""
ReadVerdict = Callable[[ChatResponse], Verdict | None]
"""The verdict in a judge's reply; None where there is none."""
RequestsOf = Callable[[Item, Response], Mapping[str, ChatRequest]]
"""Requests for the judgments that a response needs, by name; none where there is nothing to judge."""

# FastChat's two patterns (fastchat/llm_judge/common.py), with digits bounded: `\d+\.?\d*` takes quadratic time on a
# long run of digits; and an index (`a[0]`) or a link is no rating
RATING = re.compile(r"\[\[(\d{1,9}\.?\d{0,9})\]\]")
PLAIN_RATING = re.compile(r"(?<![\w\]])\[(\d{1,9}\.?\d{0,9})\](?!\()")
LABEL = re.compile(r"\[\[([A-Z<>=]{1,4})\]\]")


class Judge(NamedTuple):
    """A judge by its id, with the function that asks it."""

    id: str
    ask_all: AskAll


class Tools(NamedTuple):
    """Resources that a grader may use besides the item and the response."""

    math: MathGrader
    judge: Judge | None = None
    sandbox: Sandbox | None = None
    """For generated code; None: this process's shared one."""
    extract: Policy = "published"
    """The policy whose reading of answers gives the headline."""


class Judgment(NamedTuple, Generic[Verdict]):
    """The reply of a judge in its last draw, with the verdict read from it."""

    verdict: Verdict | None
    text: str
    """The reply of the judge without its reasoning."""
    keys: tuple[str, ...]
    failed: str = ""
    """Why there is no verdict; empty exactly where there is one."""
    answered: bool = True
    """False if the call failed, after the retries of `ask_all`."""


class Judged(NamedTuple, Generic[Verdict]):
    """A response with its judgments by name."""

    item: Item
    response: Response
    judgments: dict[str, Judgment[Verdict]]


def judge_responses(
    answered: Iterable[tuple[Item, Response]], *, requests_of: RequestsOf, read: ReadVerdict[Verdict], judge: Judge
) -> Iterator[Judged[Verdict]]:
    """Yield each response with its judgments, in order; a reply without a verdict is drawn again, DRAWS times in all.

    A failed call is not repeated. Raises what `read` raises, and what `ask_all` raises: no such judge, a spent budget.
    """
    remaining = iter(answered)
    while window := list(islice(remaining, WINDOW)):
        judgments_of_window: list[dict[str, Judgment[Verdict]]] = [{} for _ in window]
        missing: list[Set[str]] | None = None
        for draw in range(DRAWS):
            for (number, name), answer in judge.ask_all(_build_requests(window, requests_of, missing, draw=draw)):
                earlier = judgments_of_window[number].get(name)
                judgments_of_window[number][name] = _read_judgment(answer, read, earlier.keys if earlier else ())
            missing = [
                {name for name, judgment in judgments.items() if judgment.failed and judgment.answered}
                for judgments in judgments_of_window
            ]
            if not any(missing):
                break
        for (item, response), judgments in zip(window, judgments_of_window, strict=True):
            # by name, not as they came: the same judgments give the same sample
            yield Judged(item, response, dict(sorted(judgments.items())))


def _build_requests(
    window: Sequence[tuple[Item, Response]], requests_of: RequestsOf, missing: Sequence[Set[str]] | None, *, draw: int
) -> Iterator[tuple[tuple[int, str], ChatRequest]]:
    """Yield a window's requests by (index, name), one in memory at a time. missing: names by index; None: all."""
    for number, (item, response) in enumerate(window):
        if missing is not None and not missing[number]:
            continue
        for name, request in requests_of(item, response).items():
            if missing is None or name in missing[number]:
                yield (number, name), request.model_copy(update={"draw": draw}) if draw else request


def _read_judgment(answer: Answer | ModelError, read: ReadVerdict[Verdict], keys: tuple[str, ...]) -> Judgment[Verdict]:
    """Return the judgment in a reply; `failed` says why it has no verdict. keys: of earlier draws, its own follows."""
    if isinstance(answer, ModelError):
        return Judgment(None, "", keys, f"the judge did not answer: {answer}", answered=False)
    keys = (*keys, answer.key)
    text = visible_answer(answer.response.text) or ""
    verdict = read(answer.response)
    if verdict is not None:
        return Judgment(verdict, text, keys)
    cut = "; the last was cut off at its max_tokens" if answer.response.finish_reason == "length" else ""
    ending = f"it ends {text[-SHOWN_CHARS:]!r}" if text else "it says nothing besides its reasoning"
    return Judgment(None, text, keys, f"no verdict in {len(keys)} judgments{cut}; {ending}")


def read_rating(text: str) -> float | None:
    """Return the first `[[7.5]]` in a judgment, else the first `[7.5]`; None without one, or if it is not from 1 to 10.

    A later one never counts, as in FastChat (fastchat/llm_judge/common.py, `re.search`).
    """
    rating = RATING.search(text) or PLAIN_RATING.search(text)
    value = float(rating[1]) if rating else None
    return value if value is not None and 1 <= value <= 10 else None


def read_label(text: str, *, labels: Sequence[str]) -> str | None:
    """Return the label in a judgment, `[[A>>B]]`; None without one, for two that differ, or for one not in `labels`.

    Source: `get_score` of lmarena/arena-hard-auto, gen_judgment.py of v0.1.
    """
    labels_in_text = set(LABEL.findall(text))
    return labels_in_text.pop() if len(labels_in_text) == 1 and labels_in_text <= set(labels) else None


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """Fill the `{slots}` of `template`; braces in values stay. Raises TemplateUnusable for a slot without a value."""
    try:
        pieces = [text + (values[slot] if slot is not None else "") for text, slot, _, _ in Formatter().parse(template)]
    except KeyError as error:
        raise TemplateUnusable(
            f"a judge prompt has the slot {{{error.args[0]}}}; what can fill it here: {', '.join(sorted(values))}"
        ) from error
    except ValueError as error:
        raise TemplateUnusable(f"a judge prompt is no template ({error}); write a brace of its own twice") from error
    return "".join(pieces)


def judge_request(prompt: str, *, system: str = "", max_tokens: int) -> ChatRequest:
    """Return a request to a judge, at temperature 0 as in all four benchmarks."""
    system_messages = (Message(role="system", content=(Text(text=system),)),) if system else ()
    question = Message(role="user", content=(Text(text=prompt),))
    return ChatRequest(messages=(*system_messages, question), temperature=0.0, max_tokens=max_tokens)


def visible_answers(item: Item, response: Response) -> list[str]:
    """Return the answer to each prompt without its reasoning; empty where there is none."""
    answers = [(visible_answer(reply.text) or "") for reply in response.turns[: len(item.prompts)]]
    return answers + [""] * (len(item.prompts) - len(answers))


def make_judged_sample(
    judged: Judged[Verdict],
    *,
    judge: Judge,
    score: float | None,
    reason: str,
    values: Mapping[str, float] | None = None,
    detail: Mapping[str, JsonValue] | None = None,
    missing: bool = False,
) -> Sample:
    """Return a sample whose detail names the judge and holds the judgments; it is unscored where one failed."""
    item, response, judgments = judged
    failed = [f"{name}: {judgment.failed}" for name, judgment in judgments.items() if judgment.failed]
    records: dict[str, JsonValue] = {}
    for name, judgment in judgments.items():
        verdict: JsonValue = judgment.verdict
        text, half = judgment.text, KEPT_CHARS // 2
        text = text if len(text) <= KEPT_CHARS else f"{text[:half]} […] {text[-half:]}"
        records[name] = {"verdict": verdict, "text": text, "draws": len(judgment.keys), "failed": judgment.failed}
    return make_sample(
        item,
        response,
        status="unscored" if failed else "scored",
        score=None if failed else score,
        reason="; ".join(failed) or reason,
        values=dict(values or {}),
        detail={"judge": judge.id, "judgments": records, **(detail or {})},
        missing=missing,
        keys=(*response.call_keys, *(key for judgment in judgments.values() for key in judgment.keys)),
    )
