"""Reads answers aloud through espeak-ng."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import typer

VOICES = {"ko": "ko", "en": "en-us"}
MISSING = "not read aloud: espeak-ng is not installed; install it with `apt-get install espeak-ng`"
LONGEST_S = 600.0


def say(text: str) -> None:
    """Read `text` aloud; what prevents that is a note on stderr."""
    if reason := speak(text):
        typer.secho(reason, dim=True, err=True)


def speak(text: str, *, wav: Path | None = None) -> str | None:
    """Read `text` aloud, or into the file `wav`; gives a sentence when that cannot be."""
    from tasks.rag.speech.spoken_text import to_speech

    program = shutil.which("espeak-ng")
    if program is None:
        return MISSING
    speech = to_speech(text)
    if not speech.words:
        return None
    target = ["-w", str(wav)] if wav else []
    try:
        done = subprocess.run(
            [program, "-v", VOICES[speech.language], "-b", "1", *target, "--stdin"],
            input=speech.words.encode(),
            capture_output=True,
            timeout=LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"stopped reading after {LONGEST_S:g} s"
    if wav and done.returncode == 0 and not wav.exists():  # which it passes over in silence
        return f"not read aloud: {wav} cannot be written"
    return _reason(done)


def _reason(done: subprocess.CompletedProcess[bytes]) -> str | None:
    said = done.stderr.decode(errors="replace").strip().splitlines()
    # without a sound card it ends with 0 all the same
    if done.returncode == 0 and not any(line.lower().startswith("error") for line in said):
        return None
    if any(line.startswith("ALSA") for line in said):
        return "not read aloud: there is no sound device that espeak-ng can use"
    return f"not read aloud: espeak-ng failed: {said[-1] if said else f'exit code {done.returncode}'}"
