"""Answers read aloud by espeak-ng."""

from __future__ import annotations

import wave
from pathlib import Path

import pytest

from flows.cli.ask_command import speak


@pytest.mark.program("espeak-ng")
def test_an_answer_becomes_sound(tmp_path: Path) -> None:
    assert speak("사업비는 1,250,000,000원이다 [1].", wav=tmp_path / "long.wav") is None
    assert speak("예.", wav=tmp_path / "short.wav") is None
    assert seconds(tmp_path / "long.wav") > seconds(tmp_path / "short.wav") > 0.1


@pytest.mark.program("espeak-ng")
def test_without_a_word_nothing_is_said(tmp_path: Path) -> None:
    assert speak("[1]", wav=tmp_path / "none.wav") is None
    assert not (tmp_path / "none.wav").exists()


@pytest.mark.program("espeak-ng")
def test_a_file_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "no" / "such.wav"
    assert speak("Yes.", wav=path) == f"{path} cannot be written"


def test_without_espeak_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt-get install espeak-ng" in (speak("Yes.") or "")


def seconds(path: Path) -> float:
    with wave.open(str(path)) as sound:
        return sound.getnframes() / sound.getframerate()
