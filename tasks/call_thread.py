"""Calls with a limit on the clock: each is made in a thread, so that one that never ends can be left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Self, TypeVar, cast
from weakref import WeakSet

from models.model_errors import ModelUnavailable, TransientModelError

Result = TypeVar("Result")
Call = Callable[[threading.Event], Result]
"""Gets an event that is set when nobody waits for its result any more."""

_stopped = threading.Event()
_waiting: WeakSet[CallThread] = WeakSet()
_guard = threading.Lock()


class Ended(Exception):
    """The one who waited for the call was told to end."""


class _Outcome(NamedTuple):
    result: Any
    error: BaseException | None


class CallThread:
    """Makes calls one after the other in a thread that it keeps; one that takes too long is left behind there.

    A context manager: at its end the thread ends, at the latest when the call that it makes returns.
    """

    def __init__(self) -> None:
        self._finishing = threading.Event()
        self._ended = False
        self.is_waiting = False
        """A call is under way, whose result is wanted."""
        self._calls: SimpleQueue[tuple[Call[Any], threading.Event] | None] | None = None
        self._outcomes: SimpleQueue[_Outcome | None] = SimpleQueue()
        with _guard:
            _waiting.add(self)

    def within(self, seconds: float | None, call: Call[Result]) -> Result:
        """What `call` returns in time. Raises TransientModelError after it, Ended, and what `call` raises.

        seconds: None is as long as it takes.
        """
        calls = self._calls = self._calls or self._start()
        left = threading.Event()
        outcome: _Outcome | None = None
        try:
            self.refuse_when_ended()
            self.is_waiting = True
            calls.put((call, left))
            outcome = self._outcomes.get(timeout=seconds)
        except Empty:
            raise TransientModelError(f"The model did not answer within {seconds:g} s.") from None
        finally:
            self.is_waiting = False
            left.set()
            if outcome is None:
                self._leave_behind()
        if outcome is None:
            self.refuse_when_ended()
            raise AssertionError("nothing comes out only when everything ends")
        result, error = outcome
        if error is None:
            return cast("Result", result)
        try:
            raise error
        finally:
            del error, outcome  # else the error holds this frame, which holds the error

    def pause(self, seconds: float) -> None:
        """Sleep before a call. Raises as `refuse_when_finishing` does, and then at once."""
        self._finishing.wait(seconds)
        self.refuse_when_finishing()

    def finish(self) -> None:
        """Let the call under way be the last one: who pauses before another ends."""
        self._finishing.set()

    def end(self) -> None:
        """Wake the one who waits here, from any thread: `within` raises Ended, now and later."""
        self._ended = True
        self.finish()
        self._outcomes.put(None)

    def refuse_when_finishing(self) -> None:
        """Raises ModelUnavailable when the program ends, Ended when another call is no longer wanted."""
        refuse_when_stopped()
        if self._finishing.is_set():
            raise Ended

    def refuse_when_ended(self) -> None:
        """Raises ModelUnavailable when the program ends, Ended when no answer is wanted any more."""
        refuse_when_stopped()
        if self._ended:
            raise Ended

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._leave_behind()

    def _leave_behind(self) -> None:
        if self._calls is not None:
            self._calls.put(None)
        self._calls = None

    def _start(self) -> SimpleQueue[tuple[Call[Any], threading.Event] | None]:
        calls: SimpleQueue[tuple[Call[Any], threading.Event] | None] = SimpleQueue()
        self._outcomes = SimpleQueue()  # a call that was left behind speaks into the old one
        if self._ended:
            self._outcomes.put(None)
        threading.Thread(target=_make, args=(calls, self._outcomes), daemon=True, name="model-call").start()
        return calls


def stop_asking() -> None:
    """End every call under way and refuse every later one, for good: this process is about to end."""
    _stopped.set()
    for each in _all_threads():
        each.end()


def finish_asking() -> None:
    """Let every call under way be the last one of its thread, for good: this process ends with their answers."""
    _stopped.set()
    for each in _all_threads():
        each.finish()


def is_asking() -> bool:
    """Whether calls are under way whose results are wanted."""
    return any(each.is_waiting for each in _all_threads())


def _all_threads() -> list[CallThread]:
    with _guard:
        return list(_waiting)


def refuse_when_stopped() -> None:
    """Raises ModelUnavailable once `stop_asking` or `finish_asking` was called."""
    if _stopped.is_set():
        raise ModelUnavailable("The program is ending; the model is not asked any more. Run it again to go on.")


def _make(calls: SimpleQueue[tuple[Call[Any], threading.Event] | None], outcomes: SimpleQueue[_Outcome | None]) -> None:
    while (given := calls.get()) is not None:
        call, left = given
        try:
            outcome = _Outcome(call(left), None)
        except BaseException as error:  # noqa: BLE001 it is raised again in the thread that waits
            outcome = _Outcome(None, error)
        outcomes.put(outcome)
        del given, call, left, outcome  # an idle thread holds no answer
