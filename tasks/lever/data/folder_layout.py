"""Where files lie and what they are called, as in section 1.1 of the seed; and the names that its scripts use.

results/{dataset}/cache/{query,candidate,validation,test}_embeddings.pt
results/{dataset}/generated_data/vqa-…json, rl_data_{Sampler}.json
results/{dataset}/model_cpk/v2/…
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import NamedTuple

from tasks.lever.lever_errors import FileUnusable, OptionUnusable
from tasks.lever.lever_records import PoolRecipe, Sampler, Stage

OWN_SUFFIX = ".jsonl"
"""Ending of a user's own dataset."""
KNOWN_DATASETS = ("okvqa", "vqav2")
"""The seed's scripts call them `okvqa_local` and the like too."""
SAMPLERS: dict[str, Sampler] = {
    "retrieval_sampler": "RetrievalSampler",
    "rand_sampler": "RandSampler",
    "text_sim_sampler": "TextSimSampler",
    "img_sim_sampler": "ImgSimSampler",
    "mix_sampler": "MixSampler",
}
JUDGES = {"qwen2.5_vl_3B": "hf:Qwen/Qwen2.5-VL-3B-Instruct", "qwen2_5_vl_3B": "hf:Qwen/Qwen2.5-VL-3B-Instruct"}
CARD_SUFFIX = ".card.json"
"""Ending of the card beside a selector, in place of `.safetensors`."""
FOLDERS: dict[Stage, str] = {"sft": "v2", "rce": "v3", "grpo": "v3"}  # Lever-Plus's versions of its network


def dataset_of(name: str) -> str:
    """Return our name of a dataset: `okvqa` for `okvqa_local`; other names are returned as they are."""
    return next((dataset for dataset in KNOWN_DATASETS if name.lower().startswith(dataset)), name)


def folder_of(dataset: str) -> str:
    """Return the name of a dataset's folder; that of a user's own file tells files of one name apart by their paths."""
    if not dataset.endswith(OWN_SUFFIX):
        return dataset
    path = Path(dataset).resolve()
    return f"{path.stem}-{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"


def judge_of(name: str) -> str:
    """Return our name of a judge: `hf:Qwen/…` for `qwen2.5_vl_3B`; other names are returned as they are."""
    return JUDGES.get(name, name)


def sampler_of(name: str) -> Sampler:
    """Return our name of a sampler: `RandSampler` for `rand_sampler` and for itself. Raises OptionUnusable."""
    choices: dict[str, Sampler] = {**SAMPLERS, **{str(own): own for own in SAMPLERS.values()}}
    if name not in choices:
        raise OptionUnusable(f"there is no sampler {name!r}; choose one of {', '.join(choices)}")
    return choices[name]


class Layout(NamedTuple):
    """The paths of the files of one dataset, for one seed or for all."""

    results: Path
    dataset: str
    """Name of its folder, see `folder_of`."""
    seed: int | None = None
    """Where several seeds are run, what they make lies in folders of their own."""

    def of_seed(self, seed: int, *, alone: bool) -> Layout:
        """Return the layout of one seed; if it is the only one, files lie where Lever-Plus's scripts look for them."""
        return self._replace(seed=None if alone else seed)

    @property
    def cache(self) -> Path:
        """Folder of the embeddings, which is the same for all seeds."""
        return self.results / self.dataset / "cache"

    @property
    def data(self) -> Path:
        """Folder of a dataset that is made here."""
        return self.results / self.dataset / "data"

    def beam_data(self, judge: str, recipe: PoolRecipe, beam_size: int, shots: int, samples: int) -> Path:
        """Return the path of the sequences to imitate, named as Lever-Plus names it: `…-Qwen2_5-VL-3B-Instruct-…`."""
        model = judge.partition(",")[0].partition("@")[0].rpartition("/")[2]  # without arguments, revision and owner
        model = re.sub(r"[^A-Za-z0-9_-]", "_", model)
        return self._folder("generated_data") / (
            f"vqa-{self.dataset}-{model}-{recipe.sampler}-scorer:infoscore-construct_order:left"
            f"-beam_size:{beam_size}-max_shot:{shots}-candidate_num:{recipe.size}-sample_num:{samples}.json"
        )

    def rl_data(self, sampler: Sampler) -> Path:
        """Return the path of the judged pointers of a sampler's pools."""
        return self._folder("generated_data") / f"rl_data_{sampler}.json"

    def checkpoint(self, stage: Stage, sampler: Sampler) -> Path:
        """Return the path of the selector that a stage trains in a sampler's pools."""
        return self._folder("model_cpk") / FOLDERS[stage] / f"{stage}_{sampler}.safetensors"

    def files_before(self, stage: str, *, sampler: Sampler) -> dict[str, Path]:
        """Return files of earlier stages that a stage needs, by field of `start`. Raises FileUnusable if one lacks."""
        beams, rl_data = f"vqa-{self.dataset}-*-{sampler}-scorer:*.json", self.rl_data(sampler)
        sft, rce, grpo = (self.checkpoint(trained, sampler) for trained in ("sft", "rce", "grpo"))
        if stage == "sft":
            return {"beam_data": _find_only(self._folder("generated_data"), beams, "beam data", "start.beam_data")}
        if stage not in ("rl-data", "rce", "grpo", "evaluate"):
            return {}
        files = {"sft_checkpoint": sft}
        if not sft.is_file():
            pattern = f"*{sampler}*.ckpt"
            files["sft_checkpoint"] = _find_only(
                sft.parent, pattern, f"v2 checkpoint {sft.name} or", "start.sft_checkpoint"
            )
        if stage in ("rce", "grpo"):
            files["rl_data"] = _find_only(rl_data.parent, rl_data.name, "RL data", "start.rl_data")
        if stage in ("grpo", "evaluate"):
            files["rce_checkpoint"] = _find_only(rce.parent, rce.name, "RCE checkpoint", "start.rce_checkpoint")
        if stage == "evaluate" and grpo.is_file():  # there is none where a run went without GRPO
            files["grpo_checkpoint"] = grpo
        return files

    def _folder(self, name: str) -> Path:
        place = self.results / self.dataset
        return (place if self.seed is None else place / f"seed{self.seed}") / name


def _find_only(folder: Path, pattern: str, kind: str, remedy: str) -> Path:
    """Return the only file that matches the pattern. Raises FileUnusable for none, and for several."""
    match sorted(folder.glob(pattern)):
        case [one]:
            return one
        case []:
            raise FileUnusable(
                f"there is no {kind} {pattern} in {folder}; run the stage before it, use {remedy}, or name the "
                "--sampler of its files"
            )
        case several:
            names = ", ".join(path.name for path in several[:3])
            raise FileUnusable(f"{len(several)} files in {folder} may be the {kind}: {names}; name one by {remedy}")
