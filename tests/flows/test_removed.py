"""What an earlier version had answers with one line: what takes its place."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from flows.running.config_reading import explain_errors, nest_values, replacements
from flows.running.evaluation_config import EvaluateConfig
from flows.running.lever_config import LeverConfig
from flows.running.rag_config import AnswerConfig, IndexConfig
from tests.command import run_here

NAMES = [(name, instead) for kind in ("command", "option", "format") for name, instead in replacements()[kind].items()]


@pytest.mark.parametrize(("name", "instead"), NAMES, ids=[name for name, _ in NAMES])
def test_a_removed_name_answers_with_what_takes_its_place(name: str, instead: str) -> None:
    done = run_here(*name.split(), "x")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == f"error: {name} was removed: {instead}\n"


@pytest.mark.parametrize(("key", "instead"), replacements()["configuration"].items())
def test_a_removed_parameter_answers_with_what_takes_its_place(key: str, instead: str) -> None:
    said: list[str] = []
    for config in (IndexConfig, AnswerConfig, EvaluateConfig, LeverConfig):
        with pytest.raises(ValidationError) as refused:
            config.model_validate(nest_values({key: 1}))
        said += explain_errors(refused.value).splitlines()
    assert f"{key} was removed: {instead}" in said


def test_a_removed_variable_is_named_where_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIVET_CLUSTER", "tcp://127.0.0.1:8786")
    done = run_here("eval", "list", "--json")
    assert (done.code, done.stderr.startswith("note: TRIVET_CLUSTER was removed: ")) == (0, True)
