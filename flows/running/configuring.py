"""Where the steps of this process keep things, and what they reach, as the settings say."""

from __future__ import annotations

import os
from typing import Any

from flows.running.environment import prepare_environment, program
from flows.running.settings import settings
from tasks.resources import Resources, Sent, configure


def step_resources() -> Resources:
    """Where the steps of this process keep things, and what they reach."""
    read = settings()
    return Resources(
        home=read.home,
        store=read.store or str(read.home / "store"),
        database_url=read.database_address,
        gpu_deployment=read.gpu_deployment,
        send=_send,
        parse_log=read.parse_log,
        vlm_base_url=read.vlm_base_url,
        llm_base_url=read.llm_base_url,
        llm_timeout_s=read.llm_timeout_s,
        openai_base_url=read.openai_base_url,
        api_key=read.openai_api_key,
        program=program,
        secret=os.environ.get,
    )


def _send(sent: Sent, deployment: str) -> Any:
    from flows.running.dispatch import send  # which imports prefect

    return send(sent, deployment)


def configure_steps() -> None:
    """Configure the steps again, after the settings have changed."""
    prepare_environment()
    configure(step_resources())
