"""Finds the raised and lowered signs of a PDF page, and writes them as such into its runs, words and characters.

PDF knows neither: the mark of a footnote is a smaller text on a higher baseline.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tasks.documents.raised_signs import MOST_CHARS, join_fractions, lower_signs, raise_signs, shift_signs

if TYPE_CHECKING:
    from tasks.documents.pdf.pdf_text import Fragment, Word

Span = Mapping[str, Any]
"""A text of one font and size, as MuPDF gives it."""
SMALL = (0.4, 0.87)
"""Font size of a raised sign over that of the text beside it; still smaller is text beside a drop cap."""
RISE = (0.12, 0.75)
"""How far its baseline stands above that of the text beside it, in font sizes of that text."""
RISE_OF_EQUALS = (0.2, 0.6)
"""The same for digits that are as large as the text."""
FALL = (0.06, 0.45)
"""How far the baseline of lowered digits stands below."""
MARK = re.compile(
    r"\s*[(\[]?(?:주\s?)?(?:[\d+\-–−=,*†‡§¶#./⁄()\s]|(?<![^\W\d_])[^\W\d_]{1,2}(?![^\W\d_]))+[)\]]?\s*|\s*(?:TM|SM)\s*"
)
"""Digits, signs and letters that make no word: raised words, such as those of a logotype, stay words."""
DIGITS = re.compile(r"\s*[\d*†‡§¶#,()]+\s*")
GAP_EMS = 0.1
"""White behind a raised sign from which a word begins there, in font sizes."""
NEAR_EMS = (-0.15, 0.3)
"""White between a text and a mark that MuPDF gives as a line of its own, in font sizes of the text."""
MOST_LOOSE = 300
"""Lines of small digits on a page, up to which the texts beside them are looked for."""


def mark_spans(spans: Sequence[Span]) -> list[str] | None:
    """Return the texts of a line's spans in raised and lowered signs; None where all stand on the line."""
    levels = [span["origin"][1] for span in spans]
    largest = max(span["size"] for span in spans)
    if max(levels) - min(levels) < RISE[0] * min(span["size"] for span in spans):
        return None
    texts: list[str] = []
    done, raised = "", False
    base: Span | None = None
    for i, span in enumerate(spans):
        text: str = span["text"]
        beside = base or next((other for other in spans[i + 1 :] if other["text"].strip()), span)
        below = re.fullmatch(r"([/⁄]?)(\d{1,3})(.*)", text) if span["size"] < SMALL[1] * largest else None
        if not text.strip() or (place := find_place(span, beside)) == 0:
            if raised and text[:1].isalnum() and not done[-1:].isspace():
                gap = span["bbox"][0] - spans[i - 1]["bbox"][2]
                text = f" {text}" if gap > GAP_EMS * span["size"] else text
            if below and re.search(r"[⁰¹²³⁴-⁹][/⁄]$", done + below[1]):  # the number below the stroke of a fraction
                text = below[1] + lower_signs(below[2]) + below[3]
            elif any(map(str.isalnum, text)):
                base = span
            raised = raised and not text.strip()
        else:
            raised = place > 0
            text = shift_signs(text, place, before=done)
        texts.append(text)
        done += text
    return texts if texts != [span["text"] for span in spans] else None


def find_place(span: Span, beside: Span) -> int:
    """Return 1 for a text that is raised above the text beside it, -1 for lowered digits, else 0."""
    if len(span["text"].strip()) > MOST_CHARS or not MARK.fullmatch(span["text"]):
        return 0
    share = span["size"] / beside["size"] if beside["size"] else 1.0
    rise = (beside["origin"][1] - span["origin"][1]) / (beside["size"] or 1.0)
    is_digits = DIGITS.fullmatch(span["text"]) is not None
    if SMALL[0] <= share <= SMALL[1]:
        return 1 if RISE[0] <= rise <= RISE[1] else -1 if FALL[0] <= -rise <= FALL[1] and is_digits else 0
    equal = SMALL[1] < share < 1 / SMALL[1] and RISE_OF_EQUALS[0] <= rise <= RISE_OF_EQUALS[1]
    return int(equal and is_digits)


def mark_words(words: Sequence[Word], spans: Sequence[Span], texts: Sequence[str]) -> Iterator[Word]:
    """Yield the words of a line in the signs of `texts`, those of its spans; a word may begin behind a raised sign."""
    signs = [(sign, i) for i, span in enumerate(spans) for sign in span["text"] if not sign.isspace()]
    shown = [text.strip() for text in texts]
    at = 0
    for word in words:
        own = signs[at : at + len(word.text)]
        at += len(own)
        if "".join(sign for sign, _ in own) != word.text:  # MuPDF cut the line in another way
            yield word
            continue
        start, written = word, ""
        for i in dict.fromkeys(i for _, i in own):
            plain = "".join(sign for sign, at_span in own if at_span == i)
            whole = plain == "".join(spans[i]["text"].split())
            if written and texts[i][:1].isspace() and not spans[i]["text"][:1].isspace():
                yield start._replace(text=join_fractions(written), x1=spans[i - 1]["bbox"][2])
                start, written = word._replace(x0=spans[i]["bbox"][0]), ""
            written += shown[i] if whole else raise_signs(plain) if texts[i] != spans[i]["text"] else plain
        yield start._replace(text=join_fractions(written))


def attach_marks(
    fragments: Sequence[Fragment], words: Callable[[], list[Word]], leads: Mapping[tuple[int, int], Span]
) -> tuple[list[Fragment], list[Word]] | None:
    """Return runs and words with the marks that are lines of their own behind the words beside them; None without any.

    leads: the largest span of each line.
    """
    sizes = Counter[float]()
    for fragment in fragments:
        sizes[fragment.size] += len(fragment.text)
    body = sizes.most_common(1)[0][0] if sizes else 0.0
    loose = [
        fragment
        for fragment in fragments
        if fragment.size <= SMALL[1] * body and len(fragment.text) <= MOST_CHARS and MARK.fullmatch(fragment.text)
        if leads[fragment.line]["text"].strip() == fragment.text.strip()  # the only span of its line
    ]
    marks = [
        (mark, base)
        for mark in (sorted(loose) if len(loose) <= MOST_LOOSE else ())
        for base in fragments
        if base.x0 < mark.x0 <= base.x1 + NEAR_EMS[1] * base.size and find_place(leads[mark.line], leads[base.line]) > 0
    ]
    if not marks:
        return None
    by_line = {fragment.line: fragment for fragment in fragments}
    marked = words()
    for mark, base in marks:
        ends = [(mark.x0 - word.x1) / base.size if word.line == base.line else 9.0 for word in marked]
        at = next((i for i, gap in enumerate(ends) if NEAR_EMS[0] <= gap <= NEAR_EMS[1]), None)
        if at is None or mark.line not in by_line:
            continue
        word, number = marked[at], sum(word.line == base.line for word in marked[:at])
        inside = list(re.finditer(r"\S+", by_line[base.line].text))
        if number < len(inside) and inside[number][0] == word.text:
            text = by_line[base.line].text
            raised = raise_signs(mark.text.strip(), before=word.text)
            end = inside[number].end()
            x1 = max(by_line[base.line].x1, mark.x1)
            by_line[base.line] = by_line[base.line]._replace(text=text[:end] + raised + text[end:], x1=x1)
            del by_line[mark.line]
            marked[at] = word._replace(text=word.text + raised, x1=mark.x1)
            marked = [word for word in marked if word.line != mark.line]
    return list(by_line.values()), marked
