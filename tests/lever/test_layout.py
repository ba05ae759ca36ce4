"""Files are called as in the seed, and its scripts' names are understood."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.lever.data.folder_layout import Layout, dataset_of, judge_of, sampler_of
from tasks.lever.lever_records import PoolRecipe

RANDOM = PoolRecipe(sampler="RandSampler", size=64)
EXAMPLE = (
    "vqa-okvqa-Qwen2_5-VL-3B-Instruct-RandSampler-scorer:infoscore-construct_order:left-beam_size:5-max_shot:2"
    "-candidate_num:64-sample_num:800.json"
)
FILES = Layout(Path("results"), "okvqa")


def test_beam_data_is_called_as_the_seed_calls_it() -> None:
    path = FILES.beam_data("hf:Qwen/Qwen2.5-VL-3B-Instruct", RANDOM, 5, 2, 800)
    assert path == Path("results/okvqa/generated_data") / EXAMPLE


def test_several_seeds_do_not_overwrite_each_other() -> None:
    first, second = FILES.of_seed(0, alone=False), FILES.of_seed(1, alone=False)
    assert first.rl_data("RandSampler") != second.rl_data("RandSampler")
    assert first.cache == second.cache == FILES.cache
    assert FILES.of_seed(7, alone=True) == FILES


DATASETS = {"okvqa_local": "okvqa", "OKVQA_online": "okvqa", "vqav2_local": "vqav2", "vizwiz": "vizwiz"}
JUDGES = {"qwen2.5_vl_3B": "hf:Qwen/Qwen2.5-VL-3B-Instruct", "openai:gpt-4o": "openai:gpt-4o"}
SAMPLERS = {"rand_sampler": "RandSampler", "mix_sampler": "MixSampler", "ImgSimSampler": "ImgSimSampler"}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(dataset_of, DATASETS), (judge_of, JUDGES), (sampler_of, SAMPLERS)],
    ids=["datasets", "judges", "samplers"],
)
def test_names_of_the_seeds_scripts_are_understood(ours, theirs) -> None:
    assert {name: ours(name) for name in theirs} == theirs


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_a_stage_begins_from_what_the_stages_before_left(tmp_path: Path) -> None:
    files = Layout(tmp_path, "okvqa")
    beams = files.beam_data("digits", RANDOM, 5, 2, 800)
    sft, rce = files.checkpoint("sft", "RandSampler"), files.checkpoint("rce", "RandSampler")
    data = files.rl_data("RandSampler")
    touch(beams, sft, rce, data, files.checkpoint("sft", "TextSimSampler"))
    assert files.files_before("sft", sampler="RandSampler") == {"beam_data": beams}
    assert files.files_before("rl-data", sampler="RandSampler") == {"sft_checkpoint": sft}
    assert files.files_before("rce", sampler="RandSampler") == {"sft_checkpoint": sft, "rl_data": data}
    begun = {"sft_checkpoint": sft, "rl_data": data, "rce_checkpoint": rce}
    assert files.files_before("grpo", sampler="RandSampler") == begun
    assert files.files_before("embed", sampler="RandSampler") == {}


def test_a_checkpoint_of_the_seed_serves_where_there_is_none_of_ours(tmp_path: Path) -> None:
    name = "Qwen2_5_VL_3B_Instruct_RandSampler_infoscore_left_beam5_shot2_cand64_sample800_best.ckpt"
    theirs = tmp_path / "okvqa/model_cpk/v2" / name
    touch(theirs)
    assert Layout(tmp_path, "okvqa").files_before("rl-data", sampler="RandSampler") == {"sft_checkpoint": theirs}
