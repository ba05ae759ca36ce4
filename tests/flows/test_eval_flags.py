"""Flags of the seed's command line in its form, and idle ones explained."""

from __future__ import annotations

import shlex

import pytest

from flows.cli.eval_run_command import normalize_arguments
from flows.running.evaluation_flags import WITHOUT_EFFECT
from tests.command import run_here


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("--apply_chat_template", "--apply_chat_template True"),
        ("--apply-chat-template", "--apply-chat-template True"),
        ("--apply_chat_template --limit 5", "--apply_chat_template True --limit 5"),
        ("--apply_chat_template True --limit 5", "--apply_chat_template True --limit 5"),
        ("--apply_chat_template False", "--apply_chat_template False"),
        ("--apply_chat_template tool_use", "--apply_chat_template tool_use"),
        ("--apply_chat_template=False --limit 5", "--apply_chat_template=False --limit 5"),
        ("--limit 5", "--limit 5"),
        ("", ""),
    ],
)
def test_a_chat_template_without_a_value_is_meant(line: str, read: str) -> None:
    assert normalize_arguments(shlex.split(line)) == shlex.split(read)


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("--log_samples --limit 5", "--limit 5"),
        ("--log-samples --limit 5", "--limit 5"),
        ("--use_cache /tmp/x --limit 5", "--limit 5"),
        ("--use_cache=/tmp/x --limit 5", "--limit 5"),
        ("--limit 5 --verbosity DEBUG", "--limit 5"),
        ("--use_database True --created_by me", ""),
        ("--limit 5 --tasks log_samples", "--limit 5 --tasks log_samples"),
    ],
)
def test_flags_without_effect_are_left_out_with_their_values(
    line: str, read: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert normalize_arguments(shlex.split(line)) == shlex.split(read)
    notes = capsys.readouterr().err.splitlines()
    assert all(note.startswith("note: --") for note in notes)
    words = [word.partition("=")[0].replace("-", "_").strip("_") for word in shlex.split(line) if word.startswith("--")]
    assert len(notes) == sum(word in WITHOUT_EFFECT for word in words)


def test_a_flag_that_nobody_knows_is_refused() -> None:
    done = run_here("eval", "run", "--no_such_flag", "5")
    assert (done.code, "--no_such_flag" in done.stderr) == (2, True)


@pytest.mark.parametrize(("command", "said"), [("run", "no tasks"), ("score", "give the file of responses")])
def test_a_command_without_any_flag_says_what_it_needs(command: str, said: str) -> None:
    done = run_here("eval", command)
    assert (done.code, said in done.stderr) == (2, True), done.stderr
