"""Items over several ranks, and their answers together again."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.model_errors import ContextOverflow, TransientModelError
from models.protocols import ChatRequest
from storage.artifacts import Artifacts
from tasks.evaluation.evaluation_records import Item
from tasks.evaluation.running.generation import Generated, generate, merge_parts, part_of
from tasks.evaluation.running.planning import PlannedTask
from tests.evaluation.sums import Model, last_words, task_of


def items_of(count: int) -> list[Item]:
    return [Item(id=f"i{number}", prompts=(str(number),) * (1 + number % 2)) for number in range(count)]


def talks(request: ChatRequest) -> str | ContextOverflow | TransientModelError:
    """Of five items one does not fit, and one is away for now."""
    match int(last_words(request)) % 5:
        case 3:
            return ContextOverflow("too long")
        case 4:
            return TransientModelError("busy")
        case number:
            return f"{number} is said"


def answered(
    task: PlannedTask, items: list[Item], artifacts: Artifacts, folder: Path, *, part: int, parts: int
) -> Generated:
    generated, _ = generate(
        task,
        lambda: part_of(items, part=part, parts=parts),
        ask_all=Model(talks, seed=part).ask_all,
        artifacts=artifacts,
        scratch=folder,
        tell=lambda count: None,
    )
    return generated


@given(count=st.integers(1, 30), parts=st.integers(1, 7), repeats=st.integers(1, 3))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_several_ranks_give_what_one_gives(
    artifacts: Artifacts, tmp_path: Path, count: int, parts: int, repeats: int
) -> None:
    items = items_of(count)
    task = task_of(items, artifacts, repeats=repeats)
    alone = answered(task, items, artifacts, tmp_path, part=0, parts=1)
    ranks = [answered(task, items, artifacts, tmp_path, part=part, parts=parts) for part in range(parts)]
    assert merge_parts(ranks, items, artifacts) == alone
