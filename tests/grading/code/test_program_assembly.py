"""Prompt, code and tests become one program, whose function is closed once, whoever closes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tasks.grading.code.program_assembly import assemble_program
from tasks.sandbox import Program, Sandbox
from tasks.sandbox.languages import find_language, why_unavailable

pytestmark = pytest.mark.machine

CLOSED = [json.loads(line) for line in Path(__file__).with_name("closed.jsonl").read_text("utf-8").splitlines()]
"""Language, name, and code that opens or closes the function in its own way."""
BASH = "#!/bin/bash\n# Twice $1\ntwice() {\n"
BASH_TESTS = "}\n\nset -e\n[[ $(twice 2) = 4 ]]\n"
JS = "// Twice n\nfunction twice(n){\n"
JS_TESTS = "const assert = require('node:assert');\nassert.equal(twice(2), 4);\n"
CPP = "#include<assert.h>\n// Twice n\nlong twice(long n) {\n"
CPP_TESTS = "}\nint main() {\n    assert(twice(2) == 4);\n}\n"
JAVA = "import java.util.*;\nclass Problem {\n    // Twice n\n    public static long twice(long n) {\n"
JAVA_TESTS = "    }\n    public static void main(String[] args) {\n    assert(twice(2l) == 4l);\n    }\n\n}\n"


def program(prompt: str, code: str, language: str, tests: str, *, stops: tuple[str, ...] = ()) -> str:
    tested = assemble_program(prompt, code, "twice", language, tests=tests, stops=stops)
    return tested.source + "\n" + tested.tests


def passes(prompt: str, code: str, language: str, tests: str, sandbox: Sandbox) -> str:
    """What the sandbox says of it."""
    if why := why_unavailable(find_language(language)):
        pytest.skip(why)
    source, tests = assemble_program(prompt, code, "twice", language, tests=tests, stops=())
    return sandbox.run(Program(source, language, tests=tests)).status


@pytest.mark.parametrize(("language", "code"), [(row[0], row[2]) for row in CLOSED], ids=[row[1] for row in CLOSED])
def test_the_function_is_closed_once(language: str, code: str, sandbox: Sandbox) -> None:
    prompt, tests = (BASH, BASH_TESTS) if language == "sh" else (JS, JS_TESTS)
    assert passes(prompt, code, language, tests, sandbox) == "ok"
    assert passes(prompt, code.replace("* 2", "* 3"), language, tests, sandbox) == "failed"


@pytest.mark.parametrize(
    ("code", "stops", "kept"),
    [
        ("  return 1;\n}\nfunction other() {}\n", ("\nfunction ", "\n//"), "  return 1;\n}"),
        ("  return 1;\n}\n// more\nfunction other() {}\n", ("\nfunction ", "\n//"), "  return 1;\n}"),
        ("  return 1;\n}\nfunction other() {}\n", (), "  return 1;\n}\nfunction other() {}\n"),
    ],
    ids=["at a stop", "at the first of several", "no stops: it was fenced"],
)
def test_a_continuation_ends_at_a_stop(code: str, stops: tuple[str, ...], kept: str) -> None:
    assert program(JS, code, "js", JS_TESTS, stops=stops) == f"{JS}{kept}\n{JS_TESTS}"


def test_usage_behind_the_last_function_is_left_out() -> None:
    code = "half() {\n  :\n}\ntwice() {\n  echo 4\n}\n\nif [ $# -ne 1 ]; then\n  exit 1\nfi\ntwice 2\n"
    assert "exit 1" not in program(BASH, code, "sh", BASH_TESTS)
    assert "half" in program(BASH, code, "sh", BASH_TESTS)
    shown = "function twice(n) {\n  return 4;\n}\n\nconsole.log(twice(2));\n"
    assert "console" not in program(JS, shown, "js", JS_TESTS)
    assert "=> n * 2" in program(JS, "function half() {\n}\nconst twice = n => n * 2;\n", "js", JS_TESTS)


def test_names_that_the_tests_declare_are_declared_once() -> None:
    code = "const assert = require('assert');\nexport default function twice(n) {\n  return 4;\n}\n"
    whole = program(JS, code, "javascript", JS_TESTS)
    assert whole.count("const assert") == 1
    assert "export" not in whole


def test_a_main_of_the_code_makes_way_for_that_of_the_tests() -> None:
    code = "int one() { return 1; }\nlong twice(long n) {\n    return n * 2; // }\n}\n"
    code += "int main() {\n    if (1) { one(); }\n}\n"
    whole = program(CPP, code, "cpp", CPP_TESTS)
    assert whole.count("int main()") == 1
    assert whole.count("{") == whole.count("}") - 1
    assert "int one()" in whole


@pytest.mark.parametrize(
    "code",
    [
        "        return n * 2;\n",
        "public static long twice(long n) {\n    return n * 2;\n}\n",
        "class Problem {\n    public static long twice(long n) {\n        return n * 2;\n    }\n}\n",
        "import java.util.List;\n\npublic class Main {\n    static long twice(long n) {\n        return n * 2;\n    }\n"
        "\n    public static void main(String[] args) {\n        twice(1);\n    }\n}\n",
    ],
    ids=["body", "method", "class", "program"],
)
def test_java_has_one_class_with_one_main(code: str) -> None:
    whole = program(JAVA, code, "java", JAVA_TESTS)
    assert [whole.count(text) for text in ("class ", " main(", "long twice(")] == [1, 1, 1]
    assert whole.count("{") == whole.count("}")
    assert whole.rindex("import ") < whole.index("class ")


def test_java_gets_a_pair_where_it_is_used() -> None:
    prompt = JAVA.replace("class", "import org.javatuples.*;\nclass").replace("long twice", "Pair<Long, Long> twice")
    whole = program(prompt, "        return Pair.with(n, n);\n", "java", JAVA_TESTS)
    assert "javatuples" not in whole
    assert "class Pair<A, B>" in whole
    assert "class Pair" not in program(JAVA, "        return n * 2;\n", "java", JAVA_TESTS)


@pytest.mark.parametrize("language", ["sh", "js", "cpp", "java"])
@pytest.mark.parametrize("sign", ["{", "}", '"', "'", "/*", "`", "import (", "twice(", "class a "])
def test_a_long_answer_takes_no_longer_than_its_length(sign: str, language: str) -> None:
    for code in (sign * 50_000, f"{sign}\n" * 20_000, f"function twice(n) {{ {sign * 20_000}"):
        assert BASH_TESTS.strip("}\n ") in program(BASH, code, language, BASH_TESTS)
