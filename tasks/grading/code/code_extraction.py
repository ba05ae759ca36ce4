"""Extracts the program from an answer, and joins prompt and completion.

Programs are read by lines and names alone, since untrusted code can bring down a parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from textwrap import dedent, indent
from typing import NamedTuple

from tasks.sandbox.languages import find_language_name

OPENING = re.compile(r"(?P<before>[^`~]*?)(?P<fence>`{3,}|~{3,})[ \t]*\{?\.?(?P<tag>[\w+#-]*)(?P<rest>[^`]*)")
MARKER = re.compile(r"[ \t]*(?:(?:[-*+>]|\d{1,9}[.)])[ \t]+)*")
"""Signs that may stand before a fence in a list or a quotation."""
FENCES = re.compile(r"`{3,}|~{3,}")
LINE = re.compile(r"[^\n]*\n|[^\n]+")
"""`splitlines` would also end one at U+2028 and kin."""
FUTURE = re.compile(r"^from[ \t]+__future__[ \t]+import\b(?:[ \t]*\([^)]*\)|.*)\n?", re.M)
FENCE_LINE = re.compile(r"^[ \t]*[`~]{3,}[ \t]*$\n?", re.M)
BEGINS = re.compile(r"^(?:import|from(?=[ \t]+\S+[ \t]+import)|def|class|async[ \t]+def)[ \t]+\w|^@\w", re.M)
SENTENCE = re.compile(
    r"^(?=[A-Z][a-z'’]*,?[ ][A-Za-z]+[ ,.:]|(?:[A-Za-z'’]+,?[ ])+[A-Za-z'’]+[.!]$|[^\W\d_A-Za-z][^=(\n]*$|</\w+>)", re.M
)
"""A line of prose, or the end of a tag, behind a program without a fence; no Python at the margin looks like it."""
DEFINITION = re.compile(r"^(?:export |async |public |static )*(?:def|class|function)\b|^\w+[ \t]*\(\)[ \t]*\{", re.M)
BOUND = re.compile(
    r"^(?:(?:async[ \t]+)?def|class)[ \t]+(\w+)|^(?:from[ \t]+\S+[ \t]+)?import[ \t(]+([\w., \t]+)"
    r"|^(\w+(?:,[ ]?\w+)*)[ \t]*(?::[^=\n]+)?=(?!=)",
    re.M,
)
"""Names that a line at the margin of Python binds."""
TAB = 4  # CommonMark's tab stop


class Block(NamedTuple):
    """A fenced block of Markdown with its language tag."""

    tag: str
    """The word behind the opening fence, lower case: `python`, `js`; empty where there is none."""
    code: str


def extract_code(text: str, language: str, entry_point: str | None = None) -> str:
    """Return the last program in an answer: the last fenced block that defines `entry_point`, or else any function.

    Blocks of the language go before all others. If none defines one it is their first, else the longest of the others,
    else the text, of Python from the first definition up to prose; Python blocks before it precede it where it uses
    what they define. text: an answer without its reasoning, whose line ends become \\n. Blocks may be fenced by ``` or
    ~~~, indented as in a list, or never closed where an answer was cut off; empty ones are skipped.
    """
    text = normalize_line_ends(text)
    blocks = [block for block in find_blocks(text) if block.code.strip()]
    name = canonical_name(language)
    own = [block.code for block in blocks if block.tag and canonical_name(block.tag) == name]
    programs = own or [block.code for block in blocks]
    for defines in (entry_point and signature_pattern(entry_point, language), DEFINITION):
        places = [place for place, code in enumerate(programs) if defines and defines.search(dedent(code))]
        if places:
            chosen = programs[places[-1]]
            return _with_helpers(programs[: places[-1]], chosen) if name == "python" else chosen
    if programs:
        return own[0] if own else max(programs, key=len)
    unfenced = FENCE_LINE.sub("", text) or text
    is_body = unfenced.lstrip("\n")[:1].isspace()  # of the function that the prompt begins; others may follow it
    begin = BEGINS.search(unfenced) if name == "python" and not is_body else None
    return SENTENCE.split(unfenced[begin.start() :], maxsplit=1)[0] if begin else unfenced


def _with_helpers(earlier: Sequence[str], program: str) -> str:
    """Return a Python program behind those earlier blocks that bind a name which it uses and does not bind."""
    for code in reversed(earlier):
        missing = _bound_names(code) - _bound_names(program)
        if any(re.search(rf"(?<![\w.]){name}\b", program) for name in missing):
            program = f"{code.rstrip()}\n\n\n{program}"
    return program


def _bound_names(code: str) -> set[str]:
    listed = (name for match in BOUND.finditer(dedent(code)) for names in match.groups("") for name in names.split(","))
    # of `import a.b` the name is a, of `a as b` it is b
    return {name.split()[-1].partition(".")[0] for name in listed if name.strip()}


def normalize_line_ends(text: str) -> str:
    """Return `text` without carriage returns before its line feeds, of which there may be several."""
    *lines, last = text.split("\n")
    return "\n".join([*(line.rstrip("\r") for line in lines), last])


def find_blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a text, in order."""
    lines = (match[0] for match in LINE.finditer(text))
    # a fence in a docstring of code that stands there without a fence opens nothing; a quotation mark without its
    # partner is one that the prose speaks of
    marks = [mark for mark in ('"""', "'''") if text.count(mark) % 2 == 0]
    quotes = 0
    for line in lines:
        opening = _read_opening(line) if quotes % 2 == 0 else None
        if opening is None:
            quotes += sum(map(line.count, marks))
            continue
        content: list[str] = []
        for inner in lines:
            closed, last = _read_closing(inner, opening)
            content.append(last if closed else inner)
            if closed:
                break
        shift = min([opening.indent, *(_width(inner) for inner in content if inner.strip())])
        yield Block(opening.tag, "".join(_dedent(inner, shift) for inner in content))


def complete_program(prompt: str, code: str, entry_point: str, language: str) -> str:
    """Return the program in which `code` continues the prompt, or replaces the function that the prompt begins.

    prompt: imports and helpers, then the signature of `entry_point` (and its docstring). Code that defines
    `entry_point` keeps what precedes that signature. A Python body that lost its indentation, or that of its first
    line, gets it back; any other code is appended as it is.
    """
    code = normalize_line_ends(code)
    if defines_function(code, entry_point, language):
        before = before_signature(prompt, entry_point, language)
        return put_before(before, dedent(code)) if canonical_name(language) == "python" else before + code
    if prompt and not prompt.endswith("\n"):
        prompt += "\n"
    continues_function = canonical_name(language) == "python" and defines_function(prompt, entry_point, language)
    return prompt + (_as_body(code, prompt) if continues_function else code)


def put_before(prelude: str, code: str) -> str:
    """Return Python with a prelude before all but its imports from __future__, which nothing else may precede."""
    return "".join(f"{line.rstrip()}\n" for line in FUTURE.findall(code)) + prelude + FUTURE.sub("", code)


def defines_function(code: str, entry_point: str, language: str) -> bool:
    """Return whether code defines the function itself, and is not only its body."""
    if canonical_name(language) != "python":
        return signature_pattern(entry_point, language).search(code) is not None
    whole = dedent(code)
    if not signature_pattern(entry_point, language).search(whole):
        return False
    # the body of a function may define one of the same name, and then returns something
    return whole == code or not re.search(r"^return\b", whole, re.M)


def before_signature(prompt: str, entry_point: str, language: str) -> str:
    """Return imports, helpers and comments of a prompt; empty where it does not begin the function."""
    signatures = list(signature_pattern(entry_point, language).finditer(prompt))
    return prompt[: signatures[-1].start()] if signatures else ""


@cache
def signature_pattern(entry_point: str, language: str) -> re.Pattern[str]:
    """Return a pattern of the definition of a function, from the start of its line, that matches no call of it."""
    name = re.escape(entry_point)
    # a body may have a variable of the function's name, so what is bound has to be a function
    arrow = r"(?:\([^\n]{0,500}\)|\w+)[^\n=]{0,200}=>"  # bounded, as below: quadratic else
    bound = (
        rf"^(?:export[ \t]+)?(?:(?:const|let|var)[ \t]+)?{name}[ \t]*=[ \t]*(?:async\b[ \t]*)?(?:function\b|{arrow})"
    )
    assigned = rf"^{name}[ \t]*(?::[^=\n]*)?=[ \t]*(?:lambda\b|[A-Za-z_]\w*\(\)\.\w+[ \t]*$)"  # add = Solution().add
    patterns = {
        "python": rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b|{assigned}",
        "javascript": rf"^[^\n/]*?\bfunction\b[ \t*]*{name}\b|{bound}",
        "bash": rf"^[ \t]*(?:function[ \t]+{name}\b|{name}[ \t]*\([ \t]*\))",
    }
    # a type or a keyword stands before the name where it is defined, and nothing, an operator or `return` where called
    calling = r"(?![ \t]*(?:return|else|throw|new|case|yield|await|co_return|goto|delete)\b)"
    typed = rf"^{calling}[^\n=(;/]*[\w>\]&*][ \t&*]{{1,8}}{name}[ \t]*[(<]"
    return re.compile(patterns.get(canonical_name(language), typed), re.M)


def canonical_name(language: str) -> str:
    """Return the name of a language by any alias; an unknown name is returned in lower case."""
    return find_language_name(language) or language.lower()


class _Opening(NamedTuple):
    fence: str
    tag: str
    indent: int


def _read_opening(line: str) -> _Opening | None:
    """Return the fence that opens a block in this line, with its tag and indent in columns; None where none does."""
    match = OPENING.fullmatch(line.rstrip())
    if not match:
        return None
    marker = MARKER.fullmatch(match["before"])
    # behind words a fence opens a block only with a language: `Use this: ```python`
    if not marker and (match["fence"][0] == "~" or not match["tag"] or match["rest"].strip()):
        return None
    return _Opening(match["fence"], match["tag"].lower(), len(match["before"].expandtabs(TAB)) if marker else 0)


def _read_closing(line: str, opening: _Opening) -> tuple[bool, str]:
    """Return whether a line ends the block, and what of it is still code.

    As in CommonMark, a fence indented much more than the opening one ends nothing: it is in a docstring. One directly
    after code ends the block if it is the only one on its line.
    """
    stripped = line.strip()
    char, length = opening.fence[0], len(opening.fence)
    if len(stripped) >= length and not stripped.strip(char):
        return _width(line) <= opening.indent + 3, ""  # CommonMark 0.31, 4.5: up to three spaces
    is_glued = char == "`" and stripped.endswith(opening.fence) and len(FENCES.findall(stripped)) == 1
    return is_glued, line.rstrip().rstrip(char) + "\n" if is_glued else line


def _width(line: str) -> int:
    expanded = line.expandtabs(TAB)
    return len(expanded) - len(expanded.lstrip())


def _dedent(line: str, columns: int) -> str:
    code = line.lstrip(" \t")
    return line[: len(line) - len(code)].expandtabs(TAB)[columns:] + code if columns else line


def _as_body(code: str, prompt: str) -> str:
    """Return `code` indented as the body of the function that ends the prompt; unchanged if line 1 is indented."""
    lines = [line for line in code.split("\n") if line.strip()]
    if not lines or lines[0][0].isspace():
        return code
    last = next((line for line in reversed(prompt.split("\n")) if line.strip()), "")
    inside = last[: len(last) - len(last.lstrip())]
    if last.rstrip().endswith(":") or not inside:
        inside += " " * TAB
    return inside + code.lstrip("\n") if _only_first_line_lost(lines, _width(inside)) else indent(code, inside)


def _only_first_line_lost(lines: list[str], inside: int) -> bool:
    """Return whether the other lines still have the indentation of the body, as where an answer was stripped.

    lines: not blank, the first without indentation; only those before the next one without indentation count.
    """
    end = next((at for at, line in enumerate(lines[1:], start=1) if not line[0].isspace()), len(lines))
    first, rest = re.sub(r"[ \t]*#.*", "", lines[0]).rstrip(), lines[1:end]
    if not rest:  # what follows a return at the margin would never be reached
        return re.match(r"(?:return|raise)\b", first) is not None and not _is_unfinished(first)
    if any(_width(line) < inside for line in rest):
        return False
    if first.endswith(":") and _width(rest[0]) == inside:
        return False  # its block, of a body that begins at the margin
    return end == len(lines) or not _is_unfinished(first)


def _is_unfinished(line: str) -> bool:
    """Return whether a statement continues after the end of its line."""
    quoted = any(line.count(quotes) % 2 for quotes in ('"""', "'''"))
    return quoted or line.endswith("\\") or sum(map(line.count, "([{")) > sum(map(line.count, ")]}"))
