"""What to change where vLLM cannot open a model; the engine itself is in tests/engines."""

from __future__ import annotations

import pytest

from models.vllm_loading import remedy_of


@pytest.mark.parametrize("processes", ["{}", "{'EngineCore': -9}"])
def test_an_engine_that_is_killed_while_it_loads_has_mostly_taken_too_much_memory(processes: str):
    said = f"Engine core initialization failed. See root cause above. Failed core proc(s): {processes}"
    assert "killed for the memory it takes: free some" in remedy_of(said)
