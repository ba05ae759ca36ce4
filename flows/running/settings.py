"""The environment, read once; other modules get what they need as arguments, and steps as `Resources`."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from flows.running.environment import home_folder, prepare_environment, program
from tasks.resources import Resources, SentStep, configure

RETRY = "Automatic retry"
"""Beginning of the message of the state in which a run waits for flows/service/run_worker.py."""
OPENAI_MODEL, OPENAI_SMALL_MODEL = "gpt-5-mini", "gpt-4o-mini"
"""The models of `--llm openai`: the one that answers, and the one that classifies questions and rewrites answers."""


class ClusterUnusable(RuntimeError):
    """A cluster of Dask or Ray cannot be started, reached or used; says what it lacks."""


class Settings(BaseModel):
    """Each field is an environment variable; `trivet doctor` shows which are set."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True, validate_by_name=True)

    home: Path = Field(default_factory=home_folder, validation_alias="TRIVET_HOME")
    """Everything the embedded default keeps: artifacts, Prefect results, PostgreSQL cluster, logs."""
    store: str | None = Field(default=None, validation_alias="TRIVET_STORE")
    """Artifact store outside the home: `s3://bucket/prefix`, or any fsspec URL."""
    database_url: SecretStr | None = Field(default=None, validation_alias="DATABASE_URL")
    """PostgreSQL to use in place of the embedded one: `postgresql://user:password@host/name`."""
    gpu_deployment: str | None = Field(default=None, validation_alias="TRIVET_GPU_DEPLOYMENT")
    """Prefect deployment that runs GPU steps, `gpu-step/gpu`; unset: they run inline."""
    task_runner: str = Field(default="thread", validation_alias="TRIVET_TASK_RUNNER")
    """Where shards of CPU work run: `thread`, `dask` or `ray` (on this machine), or `dask=tcp://HOST:8786`."""
    openai_api_key: SecretStr | None = Field(default=None, validation_alias="OPENAI_API_KEY")
    """Key of the OpenAI-compatible endpoints."""
    openai_base_url: str | None = Field(default=None, validation_alias="OPENAI_BASE_URL")
    """OpenAI-compatible endpoint of vision models, language models and embedders."""
    llm: str = Field(default="none", validation_alias="TRIVET_LLM")
    """Who answers questions when a command does not say: `none` extracts, `local`, `openai`, or a model's name."""
    llm_model: str | None = Field(default=None, validation_alias="TRIVET_LLM_MODEL")
    """Local language model by the name that its server knows, such as `Qwen/Qwen3-8B`."""
    llm_base_url: str | None = Field(default=None, validation_alias="TRIVET_LLM_BASE_URL")
    """OpenAI-compatible endpoint of the local language model: `http://127.0.0.1:8000/v1`."""
    serve_token: SecretStr | None = Field(default=None, validation_alias="TRIVET_SERVE_TOKEN")
    """Auth string that `trivet rag serve` asks for; unset: one of its own, in `serve-token` below the home."""
    crash_retries: int = Field(default=2, ge=0, validation_alias="TRIVET_CRASH_RETRIES")
    """Automatic retries of a run, or of a step on the GPU pool, whose process was killed; 0: none."""

    @property
    def database_address(self) -> str | None:
        """The address `database_url` in plain text, with its password; None where it is not set."""
        return self.database_url.get_secret_value() if self.database_url else None


@cache
def settings() -> Settings:
    """Return the settings of this process, read from the environment once. Raises ConfigUnusable."""
    variables = {name: value for name, value in os.environ.items() if value} | {"TRIVET_HOME": home_folder()}
    try:
        return Settings.model_validate(variables, by_name=False)
    except ValidationError as error:
        from flows.running.config_reading import ConfigUnusable, explain_errors

        raise ConfigUnusable(explain_errors(error)) from None


def step_resources() -> Resources:
    """Return what the steps of this process use: store, database, endpoints, pool and secrets."""
    read = settings()
    return Resources(
        home=read.home,
        store=read.store or str(read.home / "store"),
        database_url=read.database_address,
        gpu_deployment=read.gpu_deployment,
        send=_send,
        llm_base_url=read.llm_base_url,
        openai_base_url=read.openai_base_url,
        api_key=read.openai_api_key,
        program=program,
    )


def _send(sent: SentStep, deployment: str) -> Any:
    from flows.running.dispatch import send  # which imports prefect

    return send(sent, deployment)


def configure_steps() -> None:
    """Configure the steps again, after the settings have changed."""
    prepare_environment()
    configure(step_resources())
