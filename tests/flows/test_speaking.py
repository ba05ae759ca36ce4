"""Answers read aloud by espeak-ng."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.cli.ask_command import read_aloud


@pytest.mark.program("espeak-ng")
@pytest.mark.parametrize("answer", ["예.", "[1]"], ids=["a word", "no word"])
def test_an_answer_is_read_or_has_no_device(answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    read_aloud(answer)
    assert capsys.readouterr().err in ("", "not read aloud: there is no sound device that espeak-ng can use\n")


def test_without_espeak_it_is_said_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    read_aloud("Yes.")
    assert "apt-get install espeak-ng" in capsys.readouterr().err
