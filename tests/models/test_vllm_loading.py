"""What to change where vLLM cannot open a model; the engine itself is in tests/engines."""

from __future__ import annotations

import pytest

from models.vllm_loading import remedy_of


@pytest.mark.parametrize("processes", ["{}", "{'EngineCore': -9}"])
def test_an_engine_that_is_killed_while_it_loads_has_mostly_taken_too_much_memory(processes: str):
    said = f"Engine core initialization failed. See root cause above. Failed core proc(s): {processes}"
    assert "killed for the memory it takes: free some" in remedy_of(said)


@pytest.mark.parametrize(("left", "said"), [("-0.02/0.64", "raise gpu_mem"), ("3.10/4.00", "lower gpu_mem")])
def test_a_share_that_the_model_fills_alone_is_to_be_raised_and_one_that_others_hold_lowered(left: str, said: str):
    asked = f"on kv cache allocation is less than requested memory for kv ({left} GiB). Reduce CPU memory used"
    assert said in remedy_of(f"RuntimeError: Available memory on node 0 (11.09/12.71 GiB) {asked} by other processes.")
