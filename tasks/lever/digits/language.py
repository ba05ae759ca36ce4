"""What is said in the digits' world: invented words, and three questions about a picture."""

from __future__ import annotations

from collections.abc import Sequence

WORDS = (
    *("dax", "wug", "blick", "fep", "toma", "zorp", "niff", "gazzer", "lorp", "modi", "tupa", "vash"),
    *("kiro", "pelu", "rimo", "savi", "jeka", "hulo", "befi", "quon", "dreb", "yalt", "foska", "minto"),
)
"""All words that an answer may hold; a lexicon gives ten of them to the ten digits."""
QUESTIONS = (
    "What is the digit on the left called?",
    "What is the digit on the right called?",
    "What are the two digits called, from left to right?",
)
LEFT, RIGHT, BOTH = range(3)
KINDS = ("left", "right", "both")
"""What each question asks for."""

END = len(WORDS)
"""Token behind an answer of one word; one of two words ends by itself."""
UNKNOWN = END + 1
"""Token of any other word; it is read, never said."""
TOKENS = UNKNOWN + 1
_NUMBERS = {word: number for number, word in enumerate(WORDS)}


def tokens_of(answer: str) -> tuple[int, int] | None:
    """The two tokens of an answer; None unless it has one or two words, known or not."""
    words = [_NUMBERS.get(word.strip(".,"), UNKNOWN) for word in answer.lower().split()]
    match words:
        case [one]:
            return one, END
        case [first, second]:
            return first, second
        case _:
            return None


def words_of(tokens: Sequence[int]) -> list[str]:
    """The words of an answer's tokens, without its end."""
    return [WORDS[token] for token in tokens if token < END]


def answer_to(kind: int, *, left: str, right: str) -> str:
    """The answer to a question about digits that are called `left` and `right`."""
    return (left, right, f"{left} {right}")[kind]
