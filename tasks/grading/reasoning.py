"""Separates a model's reasoning from its answer, which alone is graded."""

from __future__ import annotations

import re

from tasks.grading.grading_records import Response

TAGS = (("<think>", "</think>"), ("<thinking>", "</thinking>"), ("[THINK]", "[/THINK]"), ("◁think▷", "◁/think▷"))
"""Of DeepSeek and Qwen, Claude-like, Magistral, and Kimi models."""
FINAL_CHANNEL = "<|channel|>final<|message|>"
"""Begins the answer of gpt-oss where a server passes its harmony format on."""
HARMONY_END = re.compile(r"<\|(?:return|end|start|call)\|>.*", re.S)


def visible_answer(text: str) -> str | None:
    """`text` without its reasoning, stripped; None where the reasoning was never closed."""
    visible = visible_text(text)
    return None if visible is None else visible.strip()


def visible_text(text: str) -> str | None:
    """The same, not stripped, since the indentation of a program matters.

    A closing tag without an opening one ends reasoning too: many chat templates write the opening tag themselves.
    """
    if "<|channel|>" in text:
        _, final, answer = text.rpartition(FINAL_CHANNEL)
        return HARMONY_END.sub("", answer) if final else None
    if "hink" not in text and "THINK" not in text:
        return text
    for opening, closing in TAGS:
        _, _, text = text.rpartition(closing)
        if opening in text:
            return None
    return text


def why_missing(response: Response, nothing_found: str = "") -> str:
    """Why there is no answer in a response: the call failed, its reasoning was never closed, or `nothing_found`."""
    if response.missed:
        return f"no response: {response.missed}"
    if visible_text(response.text) is not None:
        return nothing_found or "no answer was found"
    return f"{'' if nothing_found else 'no answer was found: '}the reasoning was never closed"
