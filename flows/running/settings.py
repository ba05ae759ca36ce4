"""The environment, read once; other modules get what they need as arguments."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from flows.running.environment import home_folder

RETRY = "Automatic retry"
"""Beginning of the message of the state in which a run waits for flows/service/run_worker.py."""


class ClusterUnusable(RuntimeError):
    """A cluster of TRIVET_CLUSTER cannot be started, reached or used; says what it lacks."""


class Settings(BaseSettings):
    """Each field is an environment variable; `trivet doctor` shows which are set."""

    model_config = SettingsConfigDict(
        frozen=True, extra="ignore", use_attribute_docstrings=True, populate_by_name=True, env_ignore_empty=True
    )

    home: Path = Field(default_factory=home_folder, validation_alias="TRIVET_HOME")
    """Everything the embedded default keeps: artifacts, Prefect results, PostgreSQL cluster, logs."""
    store: str | None = Field(default=None, validation_alias="TRIVET_STORE")
    """Artifact store outside the home: `s3://bucket/prefix`, or any fsspec URL."""
    database_url: SecretStr | None = Field(default=None, validation_alias="DATABASE_URL")
    """PostgreSQL to use in place of the embedded one: `postgresql://user:password@host/name`."""
    gpu_deployment: str | None = Field(default=None, validation_alias="TRIVET_GPU_DEPLOYMENT")
    """Prefect deployment that runs GPU steps, `gpu-step/gpu`; unset: they run inline."""
    task_runner: Literal["thread", "dask", "ray"] = Field(default="thread", validation_alias="TRIVET_TASK_RUNNER")
    """Where shards of CPU work run: threads of the flow's process, or processes of a Dask or Ray cluster."""
    cluster: str | None = Field(default=None, validation_alias="TRIVET_CLUSTER")
    """An existing cluster: `tcp://host:8786` (Dask), `ray://host:10001` or `auto` (Ray); unset: one on this machine."""
    vlm_base_url: str | None = Field(default=None, validation_alias="TRIVET_VLM_BASE_URL")
    """OpenAI-compatible endpoint of the figure model: `http://127.0.0.1:8000/v1`."""
    openai_api_key: SecretStr | None = Field(default=None, validation_alias="OPENAI_API_KEY")
    """Key of the OpenAI-compatible endpoints."""
    openai_base_url: str | None = Field(default=None, validation_alias="OPENAI_BASE_URL")
    """OpenAI-compatible endpoint of language models and embedders."""
    llm: str = Field(default="none", validation_alias="TRIVET_LLM")
    """Who answers questions when a command does not say: `none` extracts, `local`, `openai`, or a model's name."""
    llm_model: str | None = Field(default=None, validation_alias="TRIVET_LLM_MODEL")
    """Local language model by the name that its server knows, such as `Qwen/Qwen3-8B`."""
    llm_base_url: str | None = Field(default=None, validation_alias="TRIVET_LLM_BASE_URL")
    """OpenAI-compatible endpoint of the local language model: `http://127.0.0.1:8000/v1`."""
    llm_timeout_s: float = Field(default=60.0, gt=0, validation_alias="TRIVET_LLM_TIMEOUT_S")
    """Seconds that a language model may say nothing; a slow one of your own may need more."""
    openai_model: str = Field(default="gpt-5-mini", validation_alias="TRIVET_OPENAI_MODEL")
    """Model that answers with `--llm openai`."""
    openai_small_model: str = Field(default="gpt-4o-mini", validation_alias="TRIVET_OPENAI_SMALL_MODEL")
    """Model that classifies questions and rewrites answers with `--llm openai`."""
    reranker: str | None = Field(default=None, validation_alias="TRIVET_RERANKER")
    """Cross-encoder by name or path that orders what was found; unset: off."""
    serve_token: SecretStr | None = Field(default=None, validation_alias="TRIVET_SERVE_TOKEN")
    """Auth string that `trivet rag serve` asks for; unset: one of its own, in `serve-token` below the home."""
    crash_retries: int = Field(default=2, ge=0, validation_alias="TRIVET_CRASH_RETRIES")
    """Automatic retries of a run, or of a step on the GPU pool, whose process was killed; 0: none."""
    parse_log: Path | None = Field(default=None, validation_alias="TRIVET_PARSE_LOG")
    """File that gets `start read SHA256` and `finish read SHA256` of each document that is read anew."""

    @property
    def database_address(self) -> str | None:
        """`database_url` in plain text."""
        return self.database_url.get_secret_value() if self.database_url else None


@cache
def settings() -> Settings:
    """The settings of this process."""
    return Settings().model_copy(update={"home": home_folder()})
