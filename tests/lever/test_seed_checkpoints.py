"""Checkpoints of Lever-Plus load, whatever foreign classes they carry, and run nothing."""

from __future__ import annotations

import pickle
import sys
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.pointer import PointerConfig
from tasks.lever.learning.checkpoints import open_selector, read_seed_checkpoint, save_selector
from tasks.lever.lever_errors import FileUnusable
from tasks.lever.lever_records import PoolRecipe, Sampler
from tests.lever.seed_files import CONFIG, MARKER, lightning, passing_class, plant, repack, save, seed_state

STATE = seed_state()


def test_a_lightning_checkpoint_gives_the_very_weights(tmp_path: Path) -> None:
    selector, _ = read_seed_checkpoint(save(lightning(STATE), tmp_path / "v2.ckpt"))
    assert selector.config == CONFIG
    assert selector.state_dict().keys() == STATE.keys()
    assert all(torch.equal(selector.state_dict()[key], STATE[key]) for key in STATE)


def test_the_shape_of_the_network_is_read_off_its_weights(tmp_path: Path) -> None:
    path = save(lightning(seed_state(PointerConfig())), tmp_path / "v2.ckpt")
    assert read_seed_checkpoint(path)[0].config == PointerConfig()


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"gate": False}, "`gate=False`"), ({}, "2 weights of the image and text encoders")],
    ids=["no gate", "encoders"],
)
def test_what_was_left_out_or_assumed_is_said(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    state = seed_state(CONFIG.model_copy(update=changes))
    notes = read_seed_checkpoint(save(lightning(state), tmp_path / "v2.ckpt"))[1]
    assert any(said in note for note in notes)


def test_parameters_views_and_transposed_weights_are_read(tmp_path: Path) -> None:
    flat = torch.cat([torch.zeros(3), *(value.flatten() for value in STATE.values())])
    state, at = dict(STATE), 3
    for key, value in STATE.items():
        state[key] = flat[at : at + value.numel()].view(value.shape)  # all weights in one storage
        at += value.numel()
    state["query_proj.weight"] = torch.nn.Parameter(STATE["query_proj.weight"].t().contiguous().t())
    selector, _ = read_seed_checkpoint(save(lightning(state), tmp_path / "v2.ckpt"))
    assert all(torch.equal(selector.state_dict()[key], STATE[key]) for key in STATE)


@pytest.mark.parametrize(("hyper", "heads"), [({"num_heads": 4}, 4), ({"config": {"num_heads": 2}}, 2)])
def test_heads_come_from_the_hyper_parameters(tmp_path: Path, hyper: dict[str, Any], heads: int) -> None:
    path = save(lightning(STATE, hyper_parameters=hyper), tmp_path / "v2.ckpt")
    assert read_seed_checkpoint(path)[0].config.heads == heads


def test_heads_are_found_inside_a_class_that_is_not_installed(tmp_path: Path) -> None:
    with passing_class("omegaconf_of_another_house", "AnyNode") as kind:
        node, cfg = kind(), kind()
        node.__dict__ = {"_val": 2, "_parent": cfg}
        cfg.__dict__ = {"_content": {"num_heads": node}, "_parent": None}
        path = save(lightning(STATE, hyper_parameters={"cfg": cfg}), tmp_path / "v2.ckpt")
    assert read_seed_checkpoint(path)[0].config.heads == 2


@pytest.mark.parametrize("wrap", [lightning, lambda state: {"model_state_dict": state}], ids=["v2", "v3"])
def test_wrong_weights_are_refused_by_name(tmp_path: Path, wrap: Any) -> None:
    state = {**STATE, "decoder_gru.weight": torch.ones(2)}
    with pytest.raises(FileUnusable, match=r"Unexpected key.*decoder_gru\.weight"):
        read_seed_checkpoint(save(wrap(state), tmp_path / "v2.ckpt"))


def text(value: str) -> bytes:
    return b"X" + len(value.encode()).to_bytes(4, "little") + value.encode()


def call(module: str, name: str, *args: bytes) -> bytes:
    return f"c{module}\n{name}\n".encode() + b"(" + b"".join(args) + b"tR"


def evils(folder: str) -> dict[str, bytes]:
    made = text(folder)
    inner = pickle.dumps(None, 2)[:-2] + call("os", "mkdir", made) + b"."
    blob = b"B" + len(inner).to_bytes(4, "little") + inner
    os_module = call("builtins", "__import__", text("os"))
    mkdir = call("builtins", "getattr", os_module, text("mkdir"))
    return {
        "os.mkdir": call("os", "mkdir", made),
        "getattr chain": mkdir + b"(" + made + b"tR",
        "newobj": b"csubprocess\nPopen\n(" + text(f"mkdir {folder}") + b"t\x81",
        "build of a class": b"ccollections\nOrderedDict\n}" + text("__init__") + b"cos\nmkdir\nsb",
        "pickle in bytes": call("pickle", "loads", blob),
        "rebuild with hooks": call("torch._utils", "_rebuild_tensor_v2", b"N", b"K\x00", b")", b")", b"\x89", mkdir),
        "import": call("evil_when_imported", "anything"),
    }


EVILS = list(evils("x"))


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is there once something has run; a module on the path makes it when it is imported."""
    folder = tmp_path / "ran"
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "evil_when_imported.py").write_text(f"import os; os.mkdir({str(folder)!r})")
    monkeypatch.syspath_prepend(tmp_path / "modules")
    return folder


@pytest.mark.parametrize("evil", EVILS)
def test_what_a_checkpoint_would_run_is_not_run(tmp_path: Path, trap: Path, evil: str) -> None:
    path = save(lightning(STATE, hyper_parameters=MARKER), tmp_path / "v2.ckpt")
    with suppress(FileUnusable):  # opcodes that torch never writes
        selector, _ = read_seed_checkpoint(plant(path, evils(str(trap))[evil]))
        assert torch.equal(selector.state_dict()["cand_proj.weight"], STATE["cand_proj.weight"])
    assert not trap.exists()
    assert "evil_when_imported" not in sys.modules


@pytest.mark.parametrize("evil", EVILS)
def test_a_weight_that_would_run_something_is_refused(tmp_path: Path, trap: Path, evil: str) -> None:
    path = save(lightning({**STATE, "cand_proj.weight": MARKER}), tmp_path / "v2.ckpt")  # pyright: ignore[reportArgumentType]
    with pytest.raises(FileUnusable, match=r"cand_proj\.weight: no tensors|no whole checkpoint"):
        read_seed_checkpoint(plant(path, evils(str(trap))[evil]))
    assert not trap.exists()


def test_the_traps_do_spring_when_they_are_unpickled(trap: Path) -> None:
    """The tests above would prove nothing if these pickles were harmless."""
    pickle.loads(b"\x80\x02" + evils(str(trap))["getattr chain"] + b".")  # noqa: S301
    assert trap.exists()


NESTED = b"\x80\x02})" + b"\x85" * 1_000_000 + b"K\x01s."
"""A dict whose key takes more stack to hash than a process has."""

# files that claim more than they have


def test_a_zip_bomb_is_refused_before_it_unfolds(tmp_path: Path) -> None:
    path = save(lightning(STATE), tmp_path / "v2.ckpt")
    bomb = bytes(64 << 20)
    repack(path, lambda name, data: bomb if name == "data/0" else data, compression=zipfile.ZIP_BZIP2)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(FileUnusable, match="is packed"):
        read_seed_checkpoint(path)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda name, data: None if name == "data.pkl" else data, id="no pickle"),
        pytest.param(lambda name, data: data[:-4] if name == "data/0" else data, id="a short storage"),
        pytest.param(lambda name, data: bytes(1 << 20) if name == "data.pkl" else data, id="endless"),
        pytest.param(lambda name, data: NESTED if name == "data.pkl" else data, id="a key of a million nested tuples"),
    ],
)
def test_damaged_archives_are_refused(tmp_path: Path, change: Any) -> None:
    path = repack(save(lightning(STATE), tmp_path / "v2.ckpt"), change)
    with pytest.raises(FileUnusable, match="no whole checkpoint"):
        read_seed_checkpoint(path)


@pytest.mark.parametrize(
    "content", [b"", b"noise" * 99, pickle.dumps({"state_dict": {}}), b"{}"], ids=["empty", "noise", "pickle", "json"]
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.ckpt").write_bytes(content)
    with pytest.raises(FileUnusable, match=r"x\.ckpt"):
        read_seed_checkpoint(tmp_path / "x.ckpt")


def test_a_checkpoint_of_a_torch_before_1_6_is_refused_with_a_remedy(tmp_path: Path) -> None:
    torch.save(lightning(STATE), tmp_path / "v2.ckpt", _use_new_zipfile_serialization=False)
    with pytest.raises(FileUnusable, match=r"save one of a torch before 1\.6 again"):
        read_seed_checkpoint(tmp_path / "v2.ckpt")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_no_damage_gives_anything_but_a_refusal_or_a_checkpoint(tmp_path: Path, data: st.DataObject) -> None:
    path = save(lightning(STATE), tmp_path / "v2.ckpt")
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = data.draw(st.binary(max_size=4))
    path.write_bytes(whole[:at] + changed + whole[at + data.draw(st.integers(0, 4)) :])
    with suppress(FileUnusable):
        assert read_seed_checkpoint(path)[0].state_dict().keys() == STATE.keys()


# and whoever wrote it


@pytest.mark.parametrize(
    ("name", "sampler"),
    [
        ("grpo_RandSampler.safetensors", "RandSampler"),
        ("sft_ImgSimSampler.safetensors", "ImgSimSampler"),
        ("w.safetensors", "RandSampler"),
    ],
)
def test_a_checkpoint_without_a_recipe_is_read_as_what_it_was(tmp_path: Path, name: str, sampler: Sampler) -> None:
    theirs = open_selector(save(lightning(STATE), tmp_path / "v2.ckpt"))
    (tmp_path / name).write_bytes(save_selector(theirs.selector, meta={"stage": "grpo"}))
    old = open_selector(tmp_path / name)
    assert old.recipe == PoolRecipe(sampler=sampler, size=0)
    assert sampler in old.notes[0]
