"""Assembles prompt, code and tests where the tests of a data set close the function that its prompt opened.

As in MultiPL-E (nuprl/MultiPL-E, dataset_builder/humaneval_to_*.py): tests of sh and cpp begin with `}`, those of java
close the function and, at their end, the class; those of js close nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tasks.grading.code import code_extraction

BLANKED = {
    "bash": r"""\\.|'[^']*+'?|"(?:\\.|[^"\\])*+"?|(?:^|(?<=\s))#[^\n]*""",
    "javascript": r"""//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/)?|(["'])(?:\\.|(?!\1)[^\\\n])*+\1?|`(?:\\.|[^`\\])*+`?""",
}
# a quote alone is no string: C++ has 1'000
BLANKED_ELSEWHERE = r"""//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/)?|"(?:\\.|[^"\\])*+"?|'(?:\\[^\n']{1,9}|[^'\\\n])'"""
"""Strings and comments, whose braces do not count; one that is never closed reaches to the end."""
MAINS = {
    "cpp": re.compile(r"^[ \t]*(?:signed|int|auto|void)[ \t]+main[ \t]*\(", re.M),
    "java": re.compile(r"^[ \t]*public[ \t]+static[ \t]+void[ \t]+main[ \t]*\(", re.M),
}
"""An entry point in the code; the tests have another."""
JAVA_CLASS = re.compile(r"^[^\n;(]*\bclass[ \t]+\w+[^{;]{0,200}\{", re.M)
JAVA_IMPORT = re.compile(r"^[ \t]*import[ \t][^\n]*\n?", re.M)


class TestedProgram(NamedTuple):
    """A program and its tests, as `Program` takes them."""

    source: str
    tests: str


class Parts(NamedTuple):
    """Code that defines the function itself, cut to stand between prompt and tests."""

    before: str
    code: str
    after: str = ""


def assemble_program(
    prompt: str, code: str, entry_point: str, language: str, *, tests: str, stops: Sequence[str]
) -> TestedProgram:
    """Return the program of a prompt that ends within a function, of code that continues or defines it, and of tests.

    stops: a continuation ends at the first that occurs; none for code that was fenced. The function is closed once,
    whether code, tests, both or neither bring the brace.
    """
    language, code = code_extraction.canonical_name(language), code_extraction.normalize_line_ends(code)
    if code_extraction.defines_function(code, entry_point, language):
        before = code_extraction.before_signature(prompt, entry_point, language)
        parts = _cut_for_tests(before, code, entry_point, language, tests)
        # a quote in a here-document may mislead the count, but not a last line that is a brace
        still_open = _depth(parts.code, language) > 0 and not re.search(r"^\}[;)]*\s*\Z", parts.code, re.M)
        tested = _close_once(TestedProgram(parts.before + parts.code, tests), still_open=still_open)
        tested = tested._replace(tests=tested.tests + parts.after)
    else:
        code = code[: min((at for stop in stops if (at := code.find(stop)) >= 0), default=len(code))]
        tested = TestedProgram(code_extraction.complete_program(prompt, code, entry_point, language), tests)
        tested = _close_once(tested, still_open=_depth(code, language) >= 0)
    if language != "java":
        return tested
    # our own Pair takes the place of org.javatuples, of which tests use nothing else
    source, tests = re.sub(r"^import[ \t]+org\.javatuples\..*\n", "", tested.source, flags=re.M), tested.tests
    if re.search(r"\bPair\b", source + tests):
        tests += Path(__file__).with_name("Pair.java").read_text("utf-8")
    return TestedProgram(source, tests)


def _close_once(tested: TestedProgram, *, still_open: bool) -> TestedProgram:
    """Return the program with its last closing brace exactly once, in the source or the tests."""
    tests_close = tested.tests.lstrip().startswith("}")
    if still_open and not tests_close:
        return tested._replace(source=tested.source.rstrip("\n") + "\n}\n")
    if tests_close and not still_open:
        return tested._replace(tests=tested.tests.replace("}", "", 1))
    return tested


def _cut_for_tests(before: str, code: str, entry_point: str, language: str, tests: str) -> Parts:
    """Return code cut for its language, so that prompt and tests fit around it."""
    match language:
        case "bash":
            return Parts(before, _cut_usage(code, entry_point, language))
        case "javascript":
            exported = r"^export[ \t]+(?:default[ \t]+)?(?=function|async|const|let|var|class)"
            code = re.sub(exported, "", code, flags=re.M)  # an error outside of modules
            # the tests declare these themselves, and a second `const` of one name is an error
            for name in re.findall(r"^(?:const|let|var)[ \t]+(\w+)[ \t]*=[ \t]*require\b", tests, re.M):
                code = re.sub(rf"^(?:const|let|var)[ \t]+{name}[ \t]*=.*\n?", "", code, flags=re.M)
            return Parts(before, _cut_usage(code, entry_point, language))
        case "java":
            return _prepare_java(before, code, entry_point)
        case _:
            return Parts(before, _cut_main(code, language))


def _cut_usage(code: str, entry_point: str, language: str) -> str:
    """Return code without what follows its last line that begins with `}`, such as example calls; else unchanged.

    Source: extract_generation_code of deepseek-ai/DeepSeek-Coder (Evaluation/HumanEval/utils/utils.py), in evalchemy.
    """
    defined = code_extraction.signature_pattern(entry_point, language).search(code)
    last = code.rfind("\n}")
    if defined is None or last < defined.end():
        return code
    end = code.find("\n", last + 1)
    return code if end < 0 else code[: end + 1]


def _prepare_java(before: str, code: str, entry_point: str) -> Parts:
    """Return the members of the class around the function, or all code; other classes go behind, `main` goes."""
    imports = "".join(statement.strip() + "\n" for statement in JAVA_IMPORT.findall(code))
    code = re.sub(r"^[ \t]*package[ \t][^\n]*\n?", "", JAVA_IMPORT.sub("", code), flags=re.M)
    code = _cut_main(code, "java")
    blanked = _blank_strings(code, "java")
    defined = code_extraction.signature_pattern(entry_point, "java").search(blanked)
    for match in JAVA_CLASS.finditer(blanked):
        end = _end_of_block(blanked, match.end() - 1)
        if defined and match.end() <= defined.start() < end:
            outer_code = f"\n{code[: match.start()]}\n{code[end:]}\n"
            return Parts(imports + before, code[match.end() : end - 1], outer_code if outer_code.strip() else "")
    return Parts(imports + before, code)


def _cut_main(code: str, language: str) -> str:
    """Return the code without its main function, in a language that has one."""
    if language not in MAINS:
        return code
    blanked = _blank_strings(code, language)
    main = MAINS[language].search(blanked)
    if main is None:
        return code
    opened = blanked.find("{", main.end())
    return code[: main.start()] + (code[_end_of_block(blanked, opened) :] if opened >= 0 else "")


def _end_of_block(blanked: str, opened: int) -> int:
    """Return the index after the brace that closes the one at `opened`; beyond the end of the code for none."""
    depth = 0
    for brace in re.compile(r"[{}]").finditer(blanked, opened):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return brace.end()
    return len(blanked) + 1


def _depth(code: str, language: str) -> int:
    """Return the number of braces that are opened and not closed; below 0 where more are closed."""
    blanked = _blank_strings(code, language)
    return blanked.count("{") - blanked.count("}")


def _blank_strings(code: str, language: str) -> str:
    """Return code with each string and comment replaced by as many spaces."""
    pattern = BLANKED.get(language, BLANKED_ELSEWHERE)
    return re.sub(pattern, lambda match: re.sub(r"[^\n]", " ", match[0]), code, flags=re.M)
