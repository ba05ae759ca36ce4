"""What distinguishes settings of one task, in words: `max_tokens 32768` beside `max_tokens 24`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

MOST_NAMED = 3
VALUE_CHARS = 24
LAST = ("version", "grader")
"""Digests and numbers of ours, named only where nothing else differs."""

Settings = Mapping[str, JsonValue]


def setting_words(settings: Mapping[str, Settings]) -> dict[str, str]:
    """Digest → what its settings have otherwise than the others; the digest's beginning where no word tells."""
    leaves = {digest: dict(flat(one)) for digest, one in settings.items()}
    names = _differing(leaves)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    words = {
        digest: ", ".join(f"{_spoken(name)} {_shown(values.get(name))}" for name in names[:MOST_NAMED]) + more
        for digest, values in leaves.items()
    }
    told = list(words.values())
    return {
        digest: said if names and told.count(said) == 1 else f"settings {digest[:8]}" for digest, said in words.items()
    }


def flat(settings: Settings, within: str = "") -> Iterator[tuple[str, JsonValue]]:
    """`sampling.max_tokens` and its value, of each setting."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from flat(value, f"{within}{name}.")
        else:
            yield f"{within}{name}", value


def _differing(leaves: Mapping[str, Settings]) -> list[str]:
    names = sorted({name for values in leaves.values() for name in values})
    found = [name for name in names if len({_shown(values.get(name)) for values in leaves.values()}) > 1]
    return [name for name in found if name not in LAST] or found


def _spoken(name: str) -> str:
    """`max_tokens` for `sampling.max_tokens`, `judge name` for `judge.name`."""
    return name.removeprefix("sampling.").replace(".", " ")


def _shown(value: JsonValue) -> str:
    text = " ".join(("unset" if value is None else str(value)).split())
    return text if len(text) <= VALUE_CHARS else f"{text[: VALUE_CHARS - 1]}…"
