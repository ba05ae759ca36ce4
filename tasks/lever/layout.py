"""Where files lie and what they are called, as in section 1.1 of the seed; and the names that its scripts use.

results/{dataset}/cache/{query,candidate,validation,test}_embeddings.pt
results/{dataset}/generated_data/vqa-…json, rl_data_{Sampler}.json
results/{dataset}/model_cpk/v2/…
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, NamedTuple, Self, get_args

from tasks.lever.errors import FileUnusable
from tasks.lever.records import Sampler

Embeddings = Literal["query", "candidate", "validation", "test"]
Part = Literal["image", "text"]

DATASETS = {"okvqa_local": "okvqa", "okvqa_online": "okvqa", "vqav2_local": "vqav2", "vqav2_online": "vqav2"}
SAMPLERS: dict[str, Sampler] = {
    "rand_sampler": "RandSampler",
    "text_sim_sampler": "TextSimSampler",
    "img_sim_sampler": "ImgSimSampler",
    "mix_sampler": "MixSampler",
}
JUDGES = {
    "qwen2.5_vl_3B": "hf:Qwen/Qwen2.5-VL-3B-Instruct",
    "qwen2_5_vl_3B": "hf:Qwen/Qwen2.5-VL-3B-Instruct",
}
SAMPLE_NUMS = {"okvqa": 800}
"""Train queries of a dataset in the seed's scripts; of all others 5000."""
ENCODINGS = re.compile(r"query_(img_text|img|text)_icd_(img_text|img|text)(?:_lever_lm)?")
PARTS: dict[str, tuple[Part, ...]] = {"img": ("image",), "text": ("text",), "img_text": ("image", "text")}
SAMPLER_NAMES = "|".join(get_args(Sampler))
BEAM_NAME = re.compile(
    rf"vqa-(?P<dataset>[^-]+)-(?P<model>.+)-(?P<sampler>{SAMPLER_NAMES})-scorer:(?P<scorer>[^-]+)"
    r"-construct_order:(?P<construct_order>[^-]+)-beam_size:(?P<beam_size>\d+)-(?:max|few)_shot:(?P<shots>\d+)"
    r"-candidate_num:(?P<candidates>\d+)-sample_num:(?P<samples>\d+)\.json"
)


def dataset_name(name: str) -> str:
    """Ours for a name of the seed's scripts; any other is ours already."""
    return DATASETS.get(name, name)


def sampler_name(name: str) -> Sampler:
    """`RandSampler` for `rand_sampler` and for itself. Raises ValueError."""
    if name in SAMPLERS:
        return SAMPLERS[name]
    if name in get_args(Sampler):
        return name  # pyright: ignore[reportReturnType]  one of its values
    raise ValueError(f"there is no sampler {name!r}; choose one of {', '.join((*SAMPLERS, *get_args(Sampler)))}")


def judge_name(name: str) -> str:
    """Ours for a model of the seed's scripts; any other is ours already."""
    return JUDGES.get(name, name)


class Encoding(NamedTuple):
    """What of a query, and what of a candidate, becomes its embedding."""

    query: tuple[Part, ...]
    candidate: tuple[Part, ...]


def encoding(name: str) -> Encoding:
    """Of `query_img_text_icd_img_text` and its kin. Raises ValueError."""
    if (match := ENCODINGS.fullmatch(name)) is None:
        raise ValueError(f"there is no encoding {name!r}; an example is query_img_text_icd_img_text")
    return Encoding(PARTS[match[1]], PARTS[match[2]])


def sample_num(dataset: str) -> int:
    """Train queries of a dataset in the seed's scripts."""
    return SAMPLE_NUMS.get(dataset_name(dataset), 5000)


class Run(NamedTuple):
    """What the names of the seed's files tell."""

    model: str
    """Of the judge: `hf:Qwen/Qwen2.5-VL-3B-Instruct`, or as it stands in a name."""
    sampler: Sampler
    samples: int
    """Train queries."""
    beam_size: int = 5
    shots: int = 2
    candidates: int = 64
    scorer: str = "infoscore"
    construct_order: str = "left"

    @property
    def model_name(self) -> str:
        """`Qwen2_5-VL-3B-Instruct`"""
        name = self.model.partition("@")[0].rpartition("/")[2]
        return re.sub(r"[^A-Za-z0-9_-]", "_", name)


class BeamName(NamedTuple):
    """A name of beam data, taken apart."""

    dataset: str
    run: Run

    def __str__(self) -> str:
        run = self.run
        return (
            f"vqa-{self.dataset}-{run.model_name}-{run.sampler}-scorer:{run.scorer}"
            f"-construct_order:{run.construct_order}-beam_size:{run.beam_size}-max_shot:{run.shots}"
            f"-candidate_num:{run.candidates}-sample_num:{run.samples}.json"
        )

    @classmethod
    def parse(cls, name: str) -> Self:
        """Of a file's name; `few_shot` for `max_shot` as well. Raises FileUnusable."""
        if (match := BEAM_NAME.fullmatch(name)) is None:
            raise FileUnusable(f"{name} is no name of beam data; an example is {EXAMPLE}")
        said = match.groupdict()
        run = Run(
            model=said["model"],
            sampler=sampler_name(said["sampler"]),
            samples=int(said["samples"]),
            beam_size=int(said["beam_size"]),
            shots=int(said["shots"]),
            candidates=int(said["candidates"]),
            scorer=said["scorer"],
            construct_order=said["construct_order"],
        )
        return cls(said["dataset"], run)


EXAMPLE = BeamName("okvqa", Run("Qwen2.5-VL-3B-Instruct", "RandSampler", 800))


class Layout(NamedTuple):
    """The files of one dataset."""

    results: Path
    dataset: str
    seed: int | None = None
    """Where several seeds are run, what they make lies in folders of their own."""

    def of_seed(self, seed: int, *, alone: bool) -> Layout:
        """The files of one seed; where it is the only one, they lie where the seed's scripts look for them."""
        return self._replace(seed=None if alone else seed)

    def embeddings(self, of: Embeddings) -> Path:
        """The same for all seeds."""
        return self.results / self.dataset / "cache" / f"{of}_embeddings.pt"

    def beam_data(self, run: Run) -> Path:
        return self._folder("generated_data") / str(BeamName(self.dataset, run))

    def rl_data(self, sampler: Sampler) -> Path:
        return self._folder("generated_data") / f"rl_data_{sampler}.json"

    def seed_checkpoint(self, run: Run) -> Path:
        """Where the seed's scripts keep a trained v2 selector."""
        return self.checkpoint("v2", run).with_suffix(".ckpt")

    def checkpoint(self, version: str, run: Run) -> Path:
        """Of ours. version: `v2`, `v3` …, a folder."""
        model = run.model_name.replace("-", "_")
        name = (
            f"{model}_{run.sampler}_{run.scorer}_{run.construct_order}_beam{run.beam_size}_shot{run.shots}"
            f"_cand{run.candidates}_sample{run.samples}_best.safetensors"
        )
        return self._folder("model_cpk") / version / name

    def _folder(self, name: str) -> Path:
        place = self.results / self.dataset
        return (place if self.seed is None else place / f"seed{self.seed}") / name
