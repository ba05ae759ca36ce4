"""What a model costs, as options name it."""

from __future__ import annotations

from math import inf


def prices_of(option: str | None) -> dict[str, float] | None:
    """Of a million tokens each, for `0.15,0.6`. Raises ValueError for anything but two numbers from 0."""
    if option is None:
        return None
    try:
        prompt, answer = (float(word) for word in option.split(","))
    except ValueError:
        prompt = answer = inf
    if not (0 <= prompt < inf and 0 <= answer < inf):
        raise ValueError("expected PROMPT,ANSWER, two numbers from 0 per million tokens, such as 0.15,0.6")
    return {"prompt": prompt, "answer": answer}
