"""Settings of trainings: what cannot be meant is refused."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import ValidationError

from tasks.lever.lever_options import GrpoSettings


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        pytest.param({"offline_epochs": 0, "rounds": 0}, "nothing would be learnt", id="neither epochs nor rounds"),
        pytest.param({"draws": 1}, "greater than or equal to 2", id="a group of one"),
        pytest.param({"lr": 0.0}, "greater than 0", id="no learning rate"),
        pytest.param(
            {"loss": "none such"}, "there is no GRPO loss 'none such' here; choose grpo", id="an unknown loss"
        ),
        pytest.param({"learning_rate": 0.1}, "Extra inputs are not permitted", id="an unknown field"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(wrong: dict[str, object], said: str):
    with pytest.raises(ValidationError, match=said):
        GrpoSettings.model_validate(wrong)


def test_flows_and_settings_are_read_without_torch():
    code = "import sys, flows.lever, flows.nightly, flows.rag; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
