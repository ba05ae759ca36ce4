"""A flow whose steps say where they ran; a worker imports them from here."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from flows.running.settings import configure_steps

configure_steps()

from prefect import flow  # noqa: E402
from prefect.futures import PrefectFuture  # noqa: E402

from flows.running.task_runners import task_runner  # noqa: E402
from storage.records import Record, Ref  # noqa: E402
from tasks.resources import artifacts  # noqa: E402
from tasks.step import Incomplete, gather, on_each, quoted, step, with_name  # noqa: E402


class Squared(Record):
    number: int
    text: Ref
    pid: int


@step(version=1)
def square(number: int, *, salt: str) -> Squared:
    """A pure step; `salt` makes each run's work new."""
    return Squared(number=number**2, text=artifacts().put("text", f"{number} {salt}".encode()), pid=os.getpid())


@step(version=1)
def ask(number: int, *, model: str) -> int:
    """A step that would ask a model."""
    del number, model
    return os.getpid()


@step(version=1)
def halve(number: int) -> int:
    """Odd numbers are not finished now."""
    if number % 2:
        raise Incomplete(number // 2, {str(number): "odd"})
    return number // 2


@step(version=1)
def fail(number: int) -> int:
    raise ValueError(f"{number} is not a number that this step knows")


@flow(name="sharded", task_runner=task_runner(2), persist_result=False)
def sharded(salt: str) -> dict[str, Any]:
    squared = [with_name(square, f"square {number}/3").submit(quoted(number), salt=salt) for number in range(3)]
    halves = on_each([2, 3], halve)
    failing: PrefectFuture[int] = fail.submit(7)
    error: Any = failing.result(raise_on_failure=False)
    results = gather(squared).results
    return {
        "squares": [each.number for each in results],
        "kept": all(artifacts().verify(each.text) for each in results),
        "pids": [each.pid for each in results],
        "asked_in": ask.submit(1, model=salt).result(),
        "halves": halves.results,
        "unfinished": halves.unfinished,
        "error": f"{type(error).__name__}: {error}",
        "pid": os.getpid(),
    }


def main() -> None:
    """Run the flow with the salt that `argv` gives."""
    print(json.dumps(sharded(sys.argv[1])))
