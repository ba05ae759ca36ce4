"""Where files lie and what they are called, as in section 1.1 of the seed; and the names that its scripts use.

results/{dataset}/cache/{query,candidate,validation,test}_embeddings.pt
results/{dataset}/generated_data/vqa-…json, rl_data_{Sampler}.json
results/{dataset}/model_cpk/v2/…
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar, get_args

from tasks.lever.lever_errors import FileUnusable, OptionUnusable
from tasks.lever.lever_options import Vectors
from tasks.lever.lever_records import Sampler, Stage

Embeddings = Literal["query", "candidate", "validation", "test"]
Value = TypeVar("Value")

KNOWN_DATASETS = ("okvqa", "vqav2")
"""The seed's scripts call them `okvqa_local` and the like too."""
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
VECTORS: dict[str, Vectors] = {
    "query_img_text_icd_img_text": "joint",
    "query_img_icd_img": "image",
    "query_text_icd_text": "text",
}
FOLDERS: dict[Stage, str] = {"sft": "v2", "rce": "v3", "grpo": "v3"}
SAMPLER_NAMES = "|".join(get_args(Sampler))
BEAM_NAME = re.compile(
    rf"vqa-(?P<dataset>[^-]+)-(?P<model>.+)-(?P<sampler>{SAMPLER_NAMES})-scorer:(?P<scorer>[^-]+)"
    r"-construct_order:(?P<construct_order>[^-]+)-beam_size:(?P<beam_size>\d+)-(?:max|few)_shot:(?P<shots>\d+)"
    r"-candidate_num:(?P<candidates>\d+)-sample_num:(?P<samples>\d+)\.json"
)


def dataset_of(name: str) -> str:
    """`okvqa` for `okvqa_local`; a name that the seed's scripts do not have is ours already."""
    return next((known for known in KNOWN_DATASETS if name.lower().startswith(known)), name)


def judge_of(name: str) -> str:
    """`hf:Qwen/Qwen2.5-VL-3B-Instruct` for `qwen2.5_vl_3B`; any other name is ours already."""
    return JUDGES.get(name, name)


def sampler_of(name: str) -> Sampler:
    """`RandSampler` for `rand_sampler` and for itself. Raises OptionUnusable."""
    own: dict[str, Sampler] = {one: one for one in SAMPLERS.values()}
    return _one_of(SAMPLERS | own, name, "sampler")


def vectors_of(name: str) -> Vectors:
    """`joint` for `query_img_text_icd_img_text` and for itself. Raises OptionUnusable."""
    own: dict[str, Vectors] = {one: one for one in VECTORS.values()}
    return _one_of(VECTORS | own, name.removesuffix("_lever_lm"), "choice of vectors")


def _one_of(known: Mapping[str, Value], name: str, what: str) -> Value:
    if name not in known:
        raise OptionUnusable(f"there is no {what} {name!r}; choose one of {', '.join(known)}")
    return known[name]


class BeamName(NamedTuple):
    """What the name of a beam data file tells."""

    dataset: str
    model: str
    """`Qwen2_5-VL-3B-Instruct`; `model_in_names` makes it of a judge."""
    sampler: Sampler
    samples: int
    """Train queries."""
    beam_size: int = 5
    shots: int = 2
    candidates: int = 64
    scorer: str = "infoscore"
    construct_order: str = "left"

    def __str__(self) -> str:
        return (
            f"vqa-{self.dataset}-{self.model}-{self.sampler}-scorer:{self.scorer}"
            f"-construct_order:{self.construct_order}-beam_size:{self.beam_size}-max_shot:{self.shots}"
            f"-candidate_num:{self.candidates}-sample_num:{self.samples}.json"
        )

    @classmethod
    def parse(cls, name: str) -> BeamName:
        """Parse a file name; older ones say `few_shot` for `max_shot`. Raises FileUnusable."""
        if (match := BEAM_NAME.fullmatch(name)) is None:
            raise FileUnusable(f"{name} is no name of beam data; an example is {EXAMPLE}")
        return cls(
            dataset=match["dataset"],
            model=match["model"],
            sampler=sampler_of(match["sampler"]),
            samples=int(match["samples"]),
            beam_size=int(match["beam_size"]),
            shots=int(match["shots"]),
            candidates=int(match["candidates"]),
            scorer=match["scorer"],
            construct_order=match["construct_order"],
        )

    def seed_checkpoint(self) -> str:
        """How the seed's scripts call the v2 selector that was trained on this file."""
        return (
            f"{self.model.replace('-', '_')}_{self.sampler}_{self.scorer}_{self.construct_order}"
            f"_beam{self.beam_size}_shot{self.shots}_cand{self.candidates}_sample{self.samples}_best.ckpt"
        )


EXAMPLE = BeamName("okvqa", "Qwen2_5-VL-3B-Instruct", "RandSampler", 800)


def model_in_names(judge: str) -> str:
    """`Qwen2_5-VL-3B-Instruct` for `hf:Qwen/Qwen2.5-VL-3B-Instruct`."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", judge.partition(",")[0].partition("@")[0].rpartition("/")[2])


class Layout(NamedTuple):
    """The files of one dataset."""

    results: Path
    dataset: str
    seed: int | None = None
    """Where several seeds are run, what they make lies in folders of their own."""

    def of_seed(self, seed: int, *, alone: bool) -> Layout:
        """The files of one seed; where it is the only one, they lie where the seed's scripts look for them."""
        return self._replace(seed=None if alone else seed)

    @property
    def cache(self) -> Path:
        """Folder of the embeddings; the same for all seeds."""
        return self.results / self.dataset / "cache"

    @property
    def data(self) -> Path:
        """Folder of a dataset that is made here."""
        return self.results / self.dataset / "data"

    def embeddings(self, of: Embeddings) -> Path:
        """A float32 [N, d] tensor; its ids lie beside it."""
        return self.cache / f"{of}_embeddings.pt"

    def beam_data(
        self, judge: str, sampler: Sampler, beam_size: int, shots: int, candidates: int, samples: int
    ) -> Path:
        """Sequences to imitate."""
        model = model_in_names(judge)
        name = BeamName(self.dataset, model, sampler, samples, beam_size=beam_size, shots=shots, candidates=candidates)
        return self._folder("generated_data") / str(name)

    def rl_data(self, sampler: Sampler) -> Path:
        """Judged pointers."""
        return self._folder("generated_data") / f"rl_data_{sampler}.json"

    def checkpoint(self, stage: Stage, sampler: Sampler) -> Path:
        """A selector that was trained here."""
        return self._folder("model_cpk") / FOLDERS[stage] / f"{stage}_{sampler}.safetensors"

    def files_before(self, stage: str, *, sampler: Sampler) -> dict[str, Path]:
        """The files that stages before this one have left, by the names of the flow's parameters.

        Raises FileUnusable for a stage whose file is not there.
        """
        found = {
            "sft": self._beam_data,
            "rl-data": self._sft,
            "rce": self._before_rce,
            "grpo": self._before_grpo,
            "evaluate": self._before_evaluate,
        }
        return found[stage](sampler) if stage in found else {}

    def _beam_data(self, sampler: Sampler) -> dict[str, Path]:
        folder = self._folder("generated_data")
        return {"beam_data": _only(folder, f"vqa-{self.dataset}-*-{sampler}-scorer:*.json", "beam data", "--beam-data")}

    def _sft(self, sampler: Sampler) -> dict[str, Path]:
        if (own := self.checkpoint("sft", sampler)).is_file():
            return {"sft_checkpoint": own}
        seeds = f"*{sampler}*.ckpt"
        return {"sft_checkpoint": _only(own.parent, seeds, f"v2 checkpoint {own.name} or", "--sft-ckpt")}

    def _before_rce(self, sampler: Sampler) -> dict[str, Path]:
        data = self.rl_data(sampler)
        return self._sft(sampler) | {"rl_data": _only(data.parent, data.name, "RL data", "--rl-data")}

    def _before_grpo(self, sampler: Sampler) -> dict[str, Path]:
        own = self.checkpoint("rce", sampler)
        return self._before_rce(sampler) | {
            "rce_checkpoint": _only(own.parent, own.name, "RCE checkpoint", "--rce-ckpt")
        }

    def _before_evaluate(self, sampler: Sampler) -> dict[str, Path]:
        """Checkpoints are enough; there is none of GRPO where a run went without it."""
        rce, grpo = self.checkpoint("rce", sampler), self.checkpoint("grpo", sampler)
        found = self._sft(sampler) | {"rce_checkpoint": _only(rce.parent, rce.name, "RCE checkpoint", "--rce-ckpt")}
        return found | ({"grpo_checkpoint": grpo} if grpo.is_file() else {})

    def _folder(self, name: str) -> Path:
        place = self.results / self.dataset
        return (place if self.seed is None else place / f"seed{self.seed}") / name


def _only(folder: Path, pattern: str, what: str, remedy: str) -> Path:
    """The one file of this name. Raises FileUnusable."""
    match sorted(folder.glob(pattern)):
        case [one]:
            return one
        case []:
            raise FileUnusable(f"there is no {what} {pattern} in {folder}; run the stage before it, or use {remedy}")
        case several:
            names = ", ".join(path.name for path in several[:3])
            raise FileUnusable(f"{len(several)} files in {folder} may be the {what}: {names}; name one by {remedy}")
