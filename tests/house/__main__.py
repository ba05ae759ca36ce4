"""The ratchet: figures of the house beside its budget. `make check` runs it.

python -m tests.house             exit 1, naming the room, where a figure is above its budget
python -m tests.house --lower     write figures that fell into budget.toml
python -m tests.house --write     write all figures: for a commit that says in its body which user asked
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tests.house.counting import count_house, count_offered, count_rooms, read_trees

ROOT = Path(__file__).parents[2]
BUDGET = Path(__file__).with_name("budget.toml")
Figures = Mapping[str, Mapping[str, float]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--lower", action="store_true", help="write the figures that fell into budget.toml")
    choice.add_argument("--write", action="store_true", help="write all figures into budget.toml, risen ones too")
    arguments = parser.parse_args()
    figures, budget = measure(ROOT), tomllib.loads(BUDGET.read_text("utf-8"))
    risen = list_risen(figures, budget)
    if arguments.write or (arguments.lower and not risen):
        BUDGET.write_text(as_toml(figures), "utf-8")
        return 0
    for sentence in risen:
        print(sentence, file=sys.stderr)
    if risen:
        print("a commit that must raise one runs `python -m tests.house --write` and says who asked", file=sys.stderr)
    elif fallen := list_risen(budget, figures):
        print(f"{len(fallen)} figures of the house fell: `python -m tests.house --lower` keeps them down")
    return 1 if risen else 0


def measure(root: Path) -> Figures:
    """Figures by table: lines and modules by room, and those of the whole house."""
    trees = read_trees(root)
    lines, modules = count_rooms(root, trees)
    return {"lines": dict(lines), "modules": dict(modules), "house": count_house(root, trees) | count_offered()}


def list_risen(figures: Figures, budget: Figures) -> list[str]:
    """A sentence for each figure above its budget; a room without a budget has none."""
    sentences: list[str] = []
    for table, rows in figures.items():
        for name, value in rows.items():
            limit = budget.get(table, {}).get(name, 0)
            if value > limit:
                label = name if table == "house" else f"{table} of {name}"
                sentences.append(f"{label}: {value:,}, and its budget is {limit:,}")
    return sentences


def as_toml(figures: Figures) -> str:
    lines = ["# Figures of the house, which only fall (`make check`); tests/house/counting.py says what they count."]
    for table, rows in figures.items():
        lines += ["", f"[{table}]", *(f'"{name}" = {value}' for name, value in rows.items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
