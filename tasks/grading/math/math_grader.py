"""Is an answer equal to the gold: cheap stages in process first, sympy in worker processes for what they leave open.

Text, numbers and structure are compared in process; what these stages leave open goes to sympy.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from types import TracebackType
from typing import NamedTuple, Self

from tasks.grading.math.expressions import Undecided, rational
from tasks.grading.math.math_answers import Answer, Based, Formula, Words
from tasks.grading.math.math_comparison import same_answer
from tasks.grading.math.math_extraction import answer_in
from tasks.grading.math.math_reading import choice_letter, read_answer
from tasks.grading.math.math_tokens import NotUnderstood
from tasks.grading.math.math_words import LOGICAL
from tasks.grading.math.normalization import MAX_CHARS, for_sympy, normalize, plain_words, spelling
from tasks.grading.math.symbolic import DeadlinePassed, Workers, WorkerUnavailable

DEADLINE_S = 10.0
CACHED = 20_000
WINDOW = 256
"""Comparisons that wait for workers at once in `equal_all`."""


class Verdict(NamedTuple):
    """Whether an answer is equal to the gold, and which stage said so."""

    equal: bool
    stage: str
    """`string`, `choice`, `numeric`, `formula`, `structure`, `symbolic`; why not: `missing`, `empty`, `too_long`,
    `unread`, `deadline`."""
    failed: str | None = None
    """Why the grader could not tell: then the answer is neither right nor wrong."""


class MathGrader:
    """Compares answers with golds; thread-safe, the same verdict each time.

    workers: processes at most, half of the processors by default; they start when the first answer needs one.
    deadline_s: of one comparison in a worker; one that takes longer is not equal.
    """

    def __init__(self, *, workers: int | None = None, deadline_s: float = DEADLINE_S) -> None:
        self._count = workers or max(1, min(8, (os.cpu_count() or 2) // 2))
        self._workers = Workers(self._count)
        self._deadline_s = deadline_s
        self._cache: OrderedDict[tuple[str, str], Verdict] = OrderedDict()
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers."""
        self._workers.close()

    def equal(self, gold: str, answer: str) -> Verdict:
        """Compare; both may be bare, in dollars, in a box, or in a whole text."""
        verdict, pair = self._cheaply(gold, answer)
        return verdict or self._symbolically(*pair)

    def equal_all(self, pairs: Iterable[tuple[str, str]], *, extracted: bool = False) -> Iterator[Verdict]:
        """Verdicts in the order of `pairs`, read as they are needed; `extracted`: answers are bare already."""
        with ThreadPoolExecutor(self._count, thread_name_prefix="math-grader") as threads:
            waiting: deque[Verdict | Future[Verdict]] = deque()
            for gold, answer in pairs:
                verdict, pair = self._cheaply(gold, answer, extracted=extracted)
                waiting.append(verdict or threads.submit(self._symbolically, *pair))
                while waiting and (len(waiting) >= WINDOW or isinstance(waiting[0], Verdict)):
                    yield _result(waiting.popleft())
            while waiting:
                yield _result(waiting.popleft())

    def _cheaply(self, gold: str, answer: str, *, extracted: bool = False) -> tuple[Verdict | None, tuple[str, str]]:
        """A verdict of the stages in process; else the pair that sympy has to compare."""
        found = (answer_in(gold) or "", answer if extracted else answer_in(answer) or "")
        if not found[1]:
            return Verdict(False, "missing"), found
        cached = self._recall(found)
        if cached:
            return cached, found
        decision = decide(*found)
        if decision.equal is not None:
            return self._keep(found, Verdict(decision.equal, decision.stage)), found
        if not sympy_may_tell(*found):
            return self._keep(found, Verdict(False, "unread")), found
        return None, found

    def _symbolically(self, gold: str, answer: str) -> Verdict:
        cached = self._recall((gold, answer))
        if cached:
            return cached
        try:
            equal = self._workers.same(for_sympy(normalize(gold)), for_sympy(normalize(answer)), self._deadline_s)
        except DeadlinePassed:
            return self._keep((gold, answer), Verdict(False, "deadline"))
        except WorkerUnavailable as error:
            return Verdict(False, "symbolic", failed=str(error))
        return self._keep((gold, answer), Verdict(equal, "symbolic"))

    def _recall(self, pair: tuple[str, str]) -> Verdict | None:
        with self._lock:
            verdict = self._cache.get(pair)
            if verdict:
                self._cache.move_to_end(pair)
            return verdict

    def _keep(self, pair: tuple[str, str], verdict: Verdict) -> Verdict:
        if verdict.stage != "too_long":
            with self._lock:
                self._cache[pair] = verdict
                if len(self._cache) > CACHED:
                    self._cache.popitem(last=False)
        return verdict


def _result(waiting: Verdict | Future[Verdict]) -> Verdict:
    return waiting if isinstance(waiting, Verdict) else waiting.result()


_GROUPED = re.compile(r"\d,\d{3}(?!\d)")
_DECIMAL_COMMA = re.compile(r"-?\d+,\d{2,}")
_DECIMAL = re.compile(r"-?\d+\.\d+")
_GROUPS = re.compile(r"-?[1-9]\d{0,2},\d{3}")
_VERDICT = re.compile(r"\W*(yes|no|true|false)\s*[,.;:]", re.I)
"""With which an answer in a sentence begins."""
_PLAIN_LOG = re.compile(r"\\log(?![a-zA-Z]|\s*_)")
"""A logarithm without a base: natural, or decimal where that fits."""
_MATHEMATICS = re.compile(r"\d|\\[a-zA-Z]|[-+*/^=<>|(\[]|^\s*\w\s*$")


class Decision(NamedTuple):
    """What a stage found; `equal` is None where it is open."""

    equal: bool | None
    stage: str


def decide(gold: str, answer: str) -> Decision:
    """Whether two bare answers say the same, as far as that can be told without sympy."""
    if len(gold) > MAX_CHARS or len(answer) > MAX_CHARS:
        return Decision(False, "too_long")
    left, right = normalize(gold), normalize(answer)
    if not left or not right:
        return Decision(False, "empty")
    if spelling(left) == spelling(right) or (len(words := plain_words(left)) > 1 and words == plain_words(right)):
        return Decision(True, "string")
    if plain_words(left) in LOGICAL and (said := _VERDICT.match(right)):
        return Decision(LOGICAL[plain_words(left)] == LOGICAL[said.group(1).lower()], "string")
    letter = choice_letter(left)
    if letter and len(left) <= 12 and (chosen := choice_letter(right) or _lower_choice(right)):
        return Decision(letter == chosen, "choice")
    return _by_structure(left, right)


def _lower_choice(normalized: str) -> str | None:
    return normalized.upper() if normalized in ("a", "b", "c", "d", "e") else None


def _by_structure(left: str, right: str) -> Decision:
    decision = _by_reading(left, right)
    if decision.equal is False and (_PLAIN_LOG.search(left) or _PLAIN_LOG.search(right)):
        decimal = _by_reading(_PLAIN_LOG.sub(r"\\lg", left), _PLAIN_LOG.sub(r"\\lg", right))
        return decimal if decimal.equal else decision
    return decision


def _by_reading(left: str, right: str) -> Decision:
    stage = ""
    readings = [(True, True)]
    if _GROUPED.search(left) and _GROUPED.search(right):
        readings.append((False, False))
    for thousands in readings:
        try:
            gold, answer = read_answer(left, thousands=thousands[0]), read_answer(right, thousands=thousands[1])
            equal = same_answer(gold, answer)
        except (NotUnderstood, Undecided, RecursionError, ArithmeticError, ValueError):
            return Decision(None, "open")
        stage = _stage(gold, answer)
        if equal:
            return Decision(True, stage)
    if _same_decimal_comma(left, right):
        return Decision(True, "numeric")
    return Decision(False, stage)


def _stage(gold: Answer, answer: Answer) -> str:
    if isinstance(gold, Words | Based) and isinstance(answer, Words | Based):
        return "string"
    if isinstance(gold, Formula) and isinstance(answer, Formula):
        return "numeric" if rational(gold.node) is not None and rational(answer.node) is not None else "formula"
    return "structure"


def _same_decimal_comma(gold: str, answer: str) -> bool:
    """`1000,99` beside `1000.99`; a gold with one digit behind its comma is a list."""
    if _DECIMAL_COMMA.fullmatch(gold) and not _GROUPS.fullmatch(gold) and gold.replace(",", ".") == answer:
        return True
    return bool(_DECIMAL.fullmatch(gold)) and answer == gold.replace(".", ",")


def sympy_may_tell(gold: str, answer: str) -> bool:
    """True where both hold mathematics: two texts that differ in their words need no sympy."""
    return all(_MATHEMATICS.search(side) for side in (gold, answer))
