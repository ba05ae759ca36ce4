"""vLLM for real: one engine at a time, on tiny models of random weights, with little memory and no compiler."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
HAS_VLLM = importlib.util.find_spec("vllm") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is below this folder; the warnings of vLLM and its libraries are theirs."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.engines)
            item.add_marker(pytest.mark.timeout(600))
            item.add_marker(pytest.mark.filterwarnings("default"))
            if not HAS_VLLM:
                reason = "vLLM is not installed here: `make engines` makes an environment with it"
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def text_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama with heads of a size that vLLM takes."""
    from tests.models.tiny import make_tiny_model

    return make_tiny_model(tmp_path_factory.mktemp("text"), hidden=64, context_tokens=256)


@pytest.fixture(scope="session")
def seeing_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen2.5-VL."""
    from tests.models.tiny_vision import make_tiny_qwen

    return make_tiny_qwen(tmp_path_factory.mktemp("seeing"), context_tokens=4096)


@pytest.fixture(scope="session")
def small() -> dict[str, Any]:
    """Settings of an engine that starts soon: a twentieth of the memory, nothing compiled."""
    return {"gpu_memory_utilization": 0.05, "enforce_eager": True}
