"""Two problems of our own with right and wrong programs, to prove a machine: LiveCodeBench's data has no solutions."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Trial(NamedTuple):
    """A problem with a right and a wrong answer."""

    row: dict[str, Any]
    """As the published files have it."""
    right: str
    wrong: str


def _row(name: str, kind: str, tests: list[tuple[str, str]], **more: Any) -> dict[str, Any]:
    public, *private = ({"input": given, "output": output, "testtype": kind} for given, output in tests)
    return {
        "question_id": f"trivet/{name}",
        "question_title": name,
        "question_content": "A problem of our own, which no model is asked.",
        "contest_date": "2024-01-01T00:00:00",
        "difficulty": "easy",
        "public_test_cases": json.dumps([public]),
        "private_test_cases": json.dumps(private),
        **more,
    }


TRIALS = (
    Trial(
        _row("longest run", "stdin", [("1\n7\n", "1\n"), ("7\n1 1 2 2 2 1 1\n", "3\n"), ("4\n5 5 5 5\n", "4")]),
        right="""```python
input()
numbers = input().split()
print(max(len(list(run)) for _, run in itertools.groupby(numbers)))
```""",
        wrong="""```python
input()
print(Counter(input().split()).most_common(1)[0][1])
```""",
    ),
    Trial(
        _row(
            "rotate",
            "functional",
            [("[1, 2, 3]\n1", "[3, 1, 2]"), ("[1, 2, 3]\n5", "[2, 3, 1]"), ("[]\n4", "[]")],
            metadata=json.dumps({"func_name": "rotate"}),
            starter_code="class Solution:\n    def rotate(self, numbers: List[int], by: int) -> List[int]:\n        ",
        ),
        right="""```python
class Solution:
    def rotate(self, numbers: List[int], by: int) -> List[int]:
        by %= len(numbers) or 1
        return numbers[-by:] + numbers[:-by] if by else numbers
```""",
        wrong="""```python
class Solution:
    def rotate(self, numbers: List[int], by: int) -> List[int]:
        return numbers[-by:] + numbers[:-by]
```""",
    ),
)
