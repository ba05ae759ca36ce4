"""What a grader may use besides the item and the response: a math process, a judge, a sandbox."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from models.model_errors import ModelError
from models.protocols import ChatRequest
from tasks.calls import Answer

if TYPE_CHECKING:
    from tasks.grading.math.math_grader import MathGrader
    from tasks.sandbox import Sandbox

AskAll = Callable[[Iterable[tuple[Any, ChatRequest]]], Iterator[tuple[Any, Answer | ModelError]]]
"""Asks many requests at once and gives the answers as they come, each with the tag of its request. A call that failed
for now gives its TransientModelError, one that does not fit its ContextOverflow; what stops the run is raised."""


class Judge(NamedTuple):
    """The model that grades."""

    id: str
    ask_all: AskAll


class Tools(NamedTuple):
    """What a grader may use besides the item and the response."""

    math: MathGrader
    judge: Judge | None = None
    sandbox: Sandbox | None = None
    """Where generated code is executed; None: the shared one of this process."""
