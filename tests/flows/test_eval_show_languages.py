"""Programs in several languages in a terminal: Python's figure first, the others below it."""

from __future__ import annotations

import pytest

from flows.cli.evaluation import run_command
from tasks.evaluation.evaluation_records import Estimate
from tests.evaluation.reports import report, task_result


@pytest.mark.parametrize("others", [("sh",), ("js", "sh")], ids=lambda names: "+".join(names))
def test_python_stands_first_and_each_other_language_below(
    others: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    whole = (
        Estimate(metric="pass@1", value=0.5, n=7),
        Estimate(metric="python_pass@1", value=0.25, n=4, headline=True),
        Estimate(metric="python_pass@2", value=0.3, n=4),
    )
    parts = tuple(Estimate(metric="pass@1", part=f"group={name}", value=0.75, n=3) for name in others)
    run_command.show_report(report(task_result("Programs", family="code", estimates=(*whole, *parts), notes=())))
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2 : 5 + len(others)]]
    assert rows[0][:3] == ["Programs", "python_pass@1", "0.250"]
    own, of_all = ["python_pass@2", "0.300", "—", "4"], ["pass@1", "0.500", "—", "7"]
    assert rows[1:] == [own, of_all, *([name, "pass@1", "0.750", "—", "3"] for name in others)]
