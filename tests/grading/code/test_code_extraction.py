"""Programs are found in answers, and become whole with their prompt, however a model wrote them."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.grading.code.code_extraction import before_signature, complete_program, defines_function, extract_code

DEFINITIONS, FENCED = (
    [json.loads(line) for line in Path(__file__).with_name(name).read_text("utf-8").splitlines()]
    for name in ("definitions.jsonl", "fenced.jsonl")
)
CODE = "def area(x):\n    return x * x\n"
PROMPT = '''\
from math import pi


def half(x):
    return x / 2


def area(x):
    """Of a square.
    >>> area(2)
    4
    """
'''
BODY = "    if x < 0:\n        return 0\n    return x * x\n"


@pytest.mark.parametrize(("text", "code"), [case[1:] for case in FENCED], ids=[case[0] for case in FENCED])
def test_the_program_of_an_answer(text: str, code: str) -> None:
    assert extract_code(text, "python") == code


def test_a_fence_in_a_docstring_ends_no_block() -> None:
    code = 'def area(x):\n    """Of a square.\n\n    ```\n    area(2)\n    ```\n    """\n    return x * x\n'
    assert extract_code(f"```python\n{code}```\n", "python") == code


def test_quotation_marks_that_prose_speaks_of_hide_no_block() -> None:
    assert extract_code(f'A docstring begins with """ in Python.\n```python\n{CODE}```\n', "python") == CODE


@pytest.mark.parametrize(("language", "code"), [("js", "let a;\n"), ("javascript", "let a;\n"), ("sh", "echo\n")])
def test_each_language_has_its_block(language: str, code: str) -> None:
    text = "```python\nimport antigravity\n```\n```js\nlet a;\n```\n```shell\necho\n```"
    assert extract_code(text, language) == code


plain = st.text(st.characters(exclude_characters="`~\r", exclude_categories=("Cs",)))
lines = st.lists(st.text(st.characters(exclude_characters="`~\r\n", exclude_categories=("Cs",))), min_size=1)


prose = plain.filter(lambda text: not any(mark in text for mark in ("'''", '"""')))


@given(before=prose, code=lines.filter(lambda code: any(line.strip() for line in code)), after=plain)
@settings(deadline=None)
def test_a_fenced_block_comes_out_as_it_is(before: str, code: list[str], after: str) -> None:
    text = "".join(line + "\n" for line in code)
    assert extract_code(f"{before}\n```python\n{text}```\n{after}", "python") == text


@given(st.text(st.sampled_from("`~ \t\n\rab#:d(){}\"'"), max_size=200))
@settings(deadline=None)
def test_any_text_gives_a_program(text: str) -> None:
    code = extract_code(text, "python")
    assert "\r\n" not in code
    assert complete_program(PROMPT, code, "area", "python").count("half") >= 1


@pytest.mark.parametrize(
    "code",
    [
        "&" * 200_000,
        "`" * 200_000,
        " " * 200_000,
        "x " * 100_000,
        "(" * 200_000,
        "area = (" + ")" * 200_000,
        "\n" * 9**5,
    ],
)
@pytest.mark.parametrize("language", ["python", "sh", "js", "cpp"])
def test_a_long_answer_takes_no_longer_than_its_length(code: str, language: str) -> None:
    assert complete_program(PROMPT, extract_code(code, language), "area", language).endswith(code[-1])


def test_a_raw_completion_continues_the_prompt_as_it_is() -> None:
    assert complete_program(PROMPT, BODY, "area", "python") == PROMPT + BODY
    assert complete_program(PROMPT, "\n" + BODY + "\nprint(1)", "area", "python") == PROMPT + "\n" + BODY + "\nprint(1)"


BODIES = [
    "    return x * x\n",
    BODY,
    "    total = 0\n    for one in range(x):\n        total += x\n    return total\n",
    "    for one in range(x):  # all: of them\n        return x * x\n    return 0\n",
    "    sizes = [\n        x,\n        x,\n    ]\n    return sizes[0] * sizes[1]\n",
    "    sizes = [x, # one\n             x]\n    return sizes[0] * sizes[1]\n",
    "    # squares only\n    return x * x\n",
    "    '''Squares.\n\n    Only.\n    '''\n    return x * x\n",
    "    def square(y):\n        return y * y\n\n    return square(x)\n",
    "    return x \\\n        * x\n",
    "    try:\n        return x * x\n    except TypeError:\n        raise\n",
]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_a_body_gets_back_the_indentation_of_its_first_line(body: str) -> None:
    assert complete_program(PROMPT, body.strip(), "area", "python") == PROMPT + body.rstrip("\n")


@pytest.mark.parametrize("body", [body for body in BODIES if "'''" not in body])
def test_a_body_at_the_margin_is_indented(body: str) -> None:
    assert ast.dump(ast.parse(complete_program(PROMPT, dedent(body), "area", "python"))) == ast.dump(
        ast.parse(PROMPT + body)
    )


def test_a_body_follows_the_indentation_of_the_prompt() -> None:
    assert complete_program("def area(x):\n  '''Of a square.'''\n", "return x", "area", "python").endswith(
        "'''\n  return x"
    )
    assert complete_program("def area(x):", "return x", "area", "python") == "def area(x):\n    return x"
    assert complete_program("class Square:\n    def area(self):\n", "return 1", "area", "python").endswith("return 1")


@pytest.mark.parametrize(
    "code",
    [
        f"{CODE}",
        f"import math\n\n\n{CODE}\nprint(area(2))\n",
        "async def area(x):\n    return x * x\n",
        "area = lambda x: x * x\n",
        "area: object = lambda x: x * x\n",
    ],
)
def test_a_repeated_signature_takes_the_place_of_the_prompts(code: str) -> None:
    program = complete_program(PROMPT, code, "area", "python")
    assert program == before_signature(PROMPT, "area", "python") + code
    assert "def half" in program
    assert "Of a square" not in program


def test_future_imports_stay_in_front() -> None:
    program = complete_program(PROMPT, f"from __future__ import annotations\nimport re\n{CODE}", "area", "python")
    assert program.startswith("from __future__ import annotations\nfrom math import pi\n")
    assert program.count("__future__") == 1
    ast.parse(program)


@pytest.mark.parametrize(("language", "code", "whole"), DEFINITIONS)
def test_a_definition_is_told_from_a_call(language: str, code: str, whole: bool) -> None:
    assert defines_function(code, "area", language) is whole
