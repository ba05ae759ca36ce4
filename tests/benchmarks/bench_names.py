"""The names of many documents: learning them, opening them for questions, and finding those that a question means.

    python -m tests.benchmarks.bench_names [--documents 200000]

Made names of tenders, filings and minutes in Korean and English, in a catalogue of parts of 600 documents. CPU seconds
and milliseconds of one thread; memory of a process that does nothing else, with digests and names of the catalogue.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from storage.arrays import map_arrays
from storage.catalogue import Catalogue, CatalogueEntry, pack_catalogue
from tasks.rag.planning.routing import Router

PART, QUESTIONS = 600, 300
SYLLABLES = (
    "가나다라마바사아자차카타파하거너더러머버서어저고노도로모보소오조구누두루무부수우주기니디리미비시이지강남동북"
)
FORMS = ("10K", "2023Q2_10Q", "8K_dated-2022-07-01", "EARNINGS")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what learning costs, then in a process of its own what opening and asking cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--opened", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.opened:
        ask(options.opened)
        return
    with tempfile.TemporaryDirectory() as folder:
        made = sorted(made_entries(options.documents), key=lambda entry: entry.document)
        for at in range(0, len(made), PART):
            (Path(folder) / f"{at:08d}.catalogue").write_bytes(pack_catalogue(made[at : at + PART]))
        for _ in ("learnt", "kept"):
            command = [sys.executable, "-m", "tests.benchmarks.bench_names", "--opened", folder]
            print(subprocess.check_output(command, text=True))


def made_entries(count: int) -> Iterator[CatalogueEntry]:
    """Documents whose names depend on their number alone."""
    drawn = random.Random(1)
    words = ["".join(drawn.choices(SYLLABLES, k=drawn.randint(2, 4))) for _ in range(8_000)]
    towns = ["".join(drawn.choices(SYLLABLES, k=2)) + drawn.choice("시군구") for _ in range(3_000)]
    firms = [" ".join(_latin(drawn) for _ in range(drawn.randint(1, 3))) for _ in range(8_000)]
    for at in range(count):
        town, firm, word, year = (
            drawn.choice(towns),
            drawn.choice(firms),
            drawn.choice(words),
            drawn.randint(2005, 2024),
        )
        name, title, metadata = f"{at % 97}/{town} {word} 회의록 {at}.docx", None, dict[str, str]()
        if at % 3 == 0:
            project = f"{word} {drawn.choice(words)} 시스템 구축"
            name = f"{year}/{town}_{project}{drawn.choice(['', '(재공고)'])}.hwp"
            metadata = {"issuer": town, "project_name": project, "notice_id": str(20240000000 + at)}
        elif at % 3 == 1:
            name = f"filings/{firm.replace(' ', '').upper()}_{year}_{drawn.choice(FORMS)}.pdf"
            title = f"{firm}, Inc. - Annual Report for Fiscal {year}"
        digest = hashlib.sha256(str(at).encode()).hexdigest()
        yield CatalogueEntry(document=digest, name=name, title=title, metadata=metadata, pages=40, chunks=100)


def _latin(drawn: random.Random) -> str:
    return "".join(drawn.choice("bcdfghklmnprst") + drawn.choice("aeiou") for _ in range(drawn.randint(2, 4))).title()


def questions_about(catalogue: Sequence[CatalogueEntry]) -> list[str]:
    """Names in full, their first words, and names that no document bears."""
    drawn = random.Random(2)
    asked: list[str] = []
    for at in drawn.sample(range(len(catalogue)), min(QUESTIONS, len(catalogue))):
        stem = catalogue[at].name.rpartition("/")[2].rpartition(".")[0].replace("_", " ")
        first = stem.split()[0]
        asked.append(
            (
                f"{stem}의 예산은 얼마인가?",
                f"What was the revenue of {first.title()} in FY2019?",
                f"What did {(first[:2] + first[3:]).title()} pay in 2020?",
            )[len(asked) % 3]
        )
    return asked


def ask(folder: Path) -> None:
    """Open the names of a catalogue, ask, and print the figures."""
    paths = sorted(folder.glob("*.catalogue"))
    before, started = _memory_mb(), time.process_time()
    catalogue = Catalogue([map_arrays(path) for path in paths], [path.stem for path in paths])
    router = Router(catalogue, kept_at=folder / "names")
    opened_s = time.process_time() - started
    print(f"{len(catalogue)} documents opened in {opened_s:.2f} CPU s, {_memory_mb() - before} MB")
    times: list[float] = []
    for question in questions_about(catalogue):
        started = time.process_time()
        router.route(question)
        times.append((time.process_time() - started) * 1e3)
    print(f"a question p50 {np.median(times):.2f}, p95 {np.percentile(times, 95):.2f}, at most {max(times):.2f} ms")


def _memory_mb() -> int:
    told = Path("/proc/self/status").read_text().splitlines()
    return round(next(int(line.split()[1]) for line in told if line.startswith("RssAnon")) / 1e3)


if __name__ == "__main__":
    main()
