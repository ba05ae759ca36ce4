"""RepoBench, completion: the next line of a file, from the file and from what it imports of its repository.

Fields as in the data set cards of tianyang/repobench_python_v1.1 and repobench_java_v1.1: repo_name, file_path,
context (path, snippet), import_statement, cropped_code, next_line. Prompt as in the README of Leolty/repobench, sent as
a turn of the user, since backends here take conversations; it is not cut to a number of tokens. Sampling, subsets and
metric keys as in mlfoundations/evalchemy (eval/chat_benchmarks/RepoBench). The line that counts is the first that is no
comment, and no fence, with which chat models begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from statistics import fmean
from typing import Any, ClassVar, cast

from pydantic import JsonValue
from rapidfuzz import fuzz

from tasks.evaluation.benchmarks.base import BaseBenchmark, Summary, Tools
from tasks.evaluation.evaluation_records import Item, Response, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Data, DataFile, Row
from tasks.grading.grading_records import make_sample
from tasks.grading.reading import visible_answer
from tasks.grading.sample_statistics import tally_samples, unscored_metric
from tasks.measure.estimates import estimate_groups

LANGUAGES = {"python": "#", "java": "//"}
"""The languages, each with the sign that begins a comment."""
LONG_COMMENTS = {"python": (('"""', "'''"), ('"""', "'''")), "java": (("/*",), ("*/",))}
"""Signs that begin and that end a comment of several lines, by language."""
SUBSETS = ("cross_file_first", "cross_file_random", "in_file")
SIMILARITY = "edit_similarity"


class RepoBench(BaseBenchmark):
    """RepoBench: the words of the next line must match exactly; groups are language and subset."""

    name = "RepoBench"
    summary = "the next line of files of Python and Java repositories: exact match and edit similarity"
    family = "code"
    files = tuple(
        DataFile(
            file=f"repobench_{language}_{subset}.jsonl",
            hub=f"tianyang/repobench_{language}_v1.1",
            hub_split=subset,
        )
        for language in LANGUAGES
        for subset in SUBSETS
    )
    sampling = Sampling(temperature=0.2, top_p=0.95, max_tokens=128)
    format_checked_only = True
    metric: ClassVar[str] = "exact_match"

    def items(self, data: Data) -> Iterator[Item]:
        for file, (language, subset) in zip(self.files, ((a, b) for a in LANGUAGES for b in SUBSETS), strict=True):
            for row in data.rows(file):
                with data.leave_out_odd(row):
                    yield Item(
                        id=f"{language}-{subset}-{row.number}",
                        prompts=(build_prompt(row, language),),
                        gold=row.text("next_line"),
                        group=f"{language}_{subset}",
                        detail={"language": language},
                    )

    def grade(self, answered: Iterable[tuple[Item, Response]], tools: Tools) -> Iterator[Sample]:
        del tools
        for item, response in answered:
            visible = visible_answer(response.text) or ""
            completion = response.text if response.text.strip() == visible else visible  # its indentation counts
            line, gold = extract_next_line(completion, str(item.detail["language"])), str(item.gold)
            equal = line.split() == gold.split()  # as the authors' exact_match_score
            yield make_sample(
                item,
                response,
                status="scored",
                score=float(equal),
                extracted=line or None,
                gold=gold,
                reason="the same words" if equal else "another line",
                values={SIMILARITY: float(round(fuzz.ratio(line, gold)))},  # the authors' fuzzywuzzy rounds
                missing=not visible,
            )

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        """Return evalchemy's percentages by language and subset, and their average over all lines of both languages."""
        all_samples = list(samples)
        totals = tally_samples(all_samples)
        headline = estimate_groups(self.metric, totals.scores, groups=totals.groups, headline=True)
        metrics: dict[str, JsonValue] = {}
        for group in (None, *sorted(totals.groups)):
            scored = [sample for sample in all_samples if sample.score is not None and group in (None, sample.group)]
            if scored:
                name = group or "weighted_avg"
                metrics[f"{name}_EM"] = round(100 * fmean(cast("float", sample.score) for sample in scored), 2)
                metrics[f"{name}_ES"] = round(fmean(sample.values[SIMILARITY] for sample in scored), 2)
        metrics[self.metric] = headline[0].value if headline else None
        return Summary(metrics | unscored_metric(totals.counts), headline, totals.counts)

    def gold_response(self, item: Item) -> str | None:
        return str(item.gold)


def build_prompt(row: Row, language: str) -> str:
    """Return the prompt: snippets of other files, then the current file up to the line that is asked for."""
    sign = LANGUAGES[language]
    snippets = cast("list[dict[str, Any]]", row.get("context") or [])
    if not all({"path", "snippet"} <= snippet.keys() for snippet in snippets):
        row.unusable("`context` must hold objects with `path` and `snippet`")
    across = "".join(f"{sign} Path: {snippet['path']}\n{snippet['snippet']}\n\n" for snippet in snippets)
    current = f"{sign} Path: {row.text('file_path')}\n{row.get('import_statement', '')}\n{row.text('cropped_code')}\n"
    return re.sub(r"\n{4,}", "\n\n", f"{sign} Repo Name: {row.text('repo_name')}\n{across}{current}")


def extract_next_line(completion: str, language: str) -> str:
    """Return the first line of a completion that is no comment, else its first line; fences are skipped."""
    lines = [line for line in completion.lstrip("\n").split("\n") if not line.startswith("```")]
    begins, ends = LONG_COMMENTS[language]
    within = False
    for line in filter(str.strip, lines):
        bare = line.strip()
        if not within and bare.startswith(begins):
            within = True
        elif within and bare.endswith(ends):
            within = False
        elif not within and not bare.startswith(LANGUAGES[language]):
            return line
    return lines[0] if lines else ""


BENCHMARK = RepoBench()
