"""Reads a user's YAML file with the line of each value, for error messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

Place = tuple[str | int, ...]
"""Path of a value in the file: `("models", 0, "limit")`."""


class YamlFile(NamedTuple):
    """The values of a YAML file with the line of each value."""

    path: Path
    values: dict[str, Any]
    lines: dict[Place, int]
    repeated: tuple[tuple[str, int], ...]
    """Repeated keys with the line of the second: YAML forbids them, PyYAML takes the last."""

    def line(self, *place: str | int) -> int:
        """Return the 1-based line of a place, or of the nearest place that encloses it."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines[place]


def read_yaml(path: Path, unusable: type[Exception], *, expected: str) -> YamlFile:
    """Read a YAML file that holds a mapping. Raises `unusable`, with file and line. expected: its content in words."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same in C, and ten times as fast
    lines: dict[Place, int] = {}
    repeated: list[tuple[str, int]] = []
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise unusable(f"{path} cannot be read ({error}); name a YAML file in UTF-8") from error
    try:
        # read twice: nodes know their lines, and only the loader makes values
        node, plain = yaml.compose(text, Loader=loader), yaml.load(text, Loader=loader)
        for place, line in _list_places(node, ()):
            if lines.setdefault(place, line) != line:
                repeated.append((str(place[-1]), line))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 + min(mark.line, text.count("\n")) if mark else 1
        raise unusable(f"{path}, line {line}: not YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise unusable(f"{path} is not YAML: {error}") from error
    if not isinstance(plain, dict):
        raise unusable(f"{path}, line 1: expected {expected} (it is {plain!r:.60})")
    return YamlFile(path, cast("dict[str, Any]", plain), lines, tuple(repeated))


def _list_places(node: Any, place: Place) -> Iterator[tuple[Place, int]]:
    """Yield the place of each value below a node with its 1-based line; the root has the place ()."""
    import yaml

    if not place and node is not None:
        yield place, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            below = (*place, str(name.value))
            yield below, name.start_mark.line + 1
            yield from _list_places(value, below)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield (*place, number), value.start_mark.line + 1
            yield from _list_places(value, (*place, number))
