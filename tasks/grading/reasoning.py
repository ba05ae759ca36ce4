"""Parts what a model thought from what it answered: only the answer is graded."""

from __future__ import annotations

import re

TAGS = (("<think>", "</think>"), ("<thinking>", "</thinking>"), ("[THINK]", "[/THINK]"), ("◁think▷", "◁/think▷"))
"""As DeepSeek and Qwen, Claude-like, Magistral and Kimi models write them."""
FINAL_CHANNEL = "<|channel|>final<|message|>"
"""Where gpt-oss begins its answer, when a server hands its harmony format through."""
HARMONY_END = re.compile(r"<\|(?:return|end|start|call)\|>.*", re.S)


def visible_answer(text: str) -> str | None:
    """`text` without its reasoning, stripped; None where the reasoning was never closed, so that there is no answer."""
    visible = visible_text(text)
    return None if visible is None else visible.strip()


def visible_text(text: str) -> str | None:
    """The same as it stands: a program may begin with an indentation that matters.

    A closing tag without an opening one ends reasoning too: many chat templates write the opening tag themselves.
    """
    if "<|channel|>" in text:
        _, final, answer = text.rpartition(FINAL_CHANNEL)
        return HARMONY_END.sub("", answer) if final else None
    for opening, closing in TAGS:
        _, _, text = text.rpartition(closing)
        if opening in text:
            return None
    return text
