"""A training across several processes of this machine: the processes that distributed.py starts.

`python -m tasks.lever.training_worker FOLDER COUNT PARENT_PID` is torchrun's agent, which starts
`python -m tasks.lever.training_worker FOLDER PARENT_PID`, once for each rank.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.distributed import CHANNEL, FAILURE, JOB, LOGS, Channel
from tasks.lever.errors import LeverError, WorkerFailed
from tasks.lever.experience import Judge
from tasks.lever.groups import Groups, Labelled
from tasks.lever.settings import GrpoSettings, RceSettings, SftSettings
from tasks.lever.training import train_grpo, train_rce, train_sft
from tasks.lever.training_loop import Trained, TrainingPlace, Validate

LOOK_S = 0.5
PATIENCE = timedelta(days=30)
"""Ranks wait for rank 0 while it waits for a judge; one that died is noticed by the agent, not by the others."""
END_S = 5
DTYPES = (torch.float64, torch.float32, torch.int64, torch.bool)


class Ranks:
    """The team of this process: torch.distributed's, which is open."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def share(self, rows: Tensor) -> Tensor:
        """One of `size` parts that differ by at most one."""
        return rows.tensor_split(self.size)[self.rank]

    def wrap(self, module: nn.Module, *, unused: bool) -> nn.Module:
        """As DistributedDataParallel."""
        return nn.parallel.DistributedDataParallel(module, find_unused_parameters=unused)

    def total(self, values: Tensor) -> Tensor:
        """Sum over the ranks."""
        summed = values.clone()
        dist.all_reduce(summed)
        return summed

    def from_first(self, make: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """What rank 0 makes."""
        made = make() if self.rank == 0 else ()
        count = self._sent([len(made)], 1)[0]
        return tuple(self._tensor(made[number] if made else None) for number in range(count))

    def _tensor(self, made: Tensor | None) -> Tensor:
        dtype, dimensions = self._sent([DTYPES.index(made.dtype), made.ndim] if made is not None else [], 2)
        shape = self._sent(list(made.shape) if made is not None else [], dimensions)
        tensor = made.contiguous() if made is not None else torch.empty(shape, dtype=DTYPES[dtype])
        dist.broadcast(tensor, src=0)
        return tensor

    def _sent(self, numbers: list[int], count: int) -> list[int]:
        sent = torch.tensor(numbers if self.rank == 0 else [0] * count)
        if count:
            dist.broadcast(sent, src=0)
        return sent.tolist()


def launch(folder: Path, count: int, parent: int) -> int:
    """Run the ranks, and write down which of them failed; gives an exit code."""
    _end_with(parent, lambda: os.kill(os.getpid(), signal.SIGTERM))
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=count,
        run_id="training",
        rdzv_backend="c10d",
        rdzv_endpoint=str(folder / "rendezvous"),
        rdzv_configs={"store_type": "file"},
        local_addr="127.0.0.1",
        max_restarts=0,
        shutdown_timeout=END_S,
        logs_specs=DefaultLogsSpecs(log_dir=str(folder / LOGS), redirects=Std.ALL),
    )
    command = ("-P", "-m", "tasks.lever.training_worker", str(folder), str(os.getpid()))
    try:
        elastic_launch(config, sys.executable)(*command)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        (folder / FAILURE).write_text(json.dumps({"rank": rank, "exitcode": failure.exitcode}))
        return 1
    return 0


def work(folder: Path, parent: int) -> None:
    """Be one rank, as the agent's environment says."""
    _end_with(parent, lambda: os._exit(1))
    with safe_open(folder / JOB, framework="pt") as file:
        job: dict[str, Any] = json.loads(file.metadata()["job"])
        tensors: dict[str, Tensor] = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    device = f"cuda:{os.environ['LOCAL_RANK']}" if job["device"].startswith("cuda") else job["device"]
    if device == "cpu":
        torch.set_num_threads(1)
    else:
        torch.cuda.set_device(torch.device(device))
    dist.init_process_group(
        "gloo" if device == "cpu" else "cpu:gloo,cuda:nccl",
        init_method=f"file://{folder / 'ranks'}",
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        timeout=PATIENCE,
    )
    try:
        _train_and_tell(folder, job, tensors, device)
    finally:
        dist.destroy_process_group()


def _train_and_tell(folder: Path, job: dict[str, Any], tensors: dict[str, Tensor], device: str) -> None:
    team = Ranks()
    with _connected(folder) if team.rank == 0 else nullcontext() as channel:
        try:
            trained = _train(job, tensors, _place(job, device, team), channel)
        except LeverError as error:  # all ranks find the same; the first one says it
            if channel:
                channel.send({"say": "refused", "kind": type(error).__name__, "text": str(error)})
            return
        if channel:
            curve = [point.model_dump() for point in trained.curve]
            said = {"curve": curve, "validation": trained.validation, "chosen_epoch": trained.chosen_epoch}
            channel.send({"say": "trained", **said}, trained.selector.state_dict())


def _train(job: dict[str, Any], tensors: dict[str, Tensor], place: TrainingPlace, channel: Channel | None) -> Trained:
    config = PointerConfig(**job["config"])
    data = {name.removeprefix("data/"): one for name, one in tensors.items() if name.startswith("data/")}
    ids = tuple(job["ids"])
    validate, judge = _validating(channel), _judging(channel) if job["judged"] else None
    stage, settings, seed = job["stage"], job["settings"], job["seed"]
    if stage == "sft":
        labelled = Labelled(ids=ids, **data)
        return train_sft(config, labelled, SftSettings(**settings), seed=seed, validate=validate, place=place)
    weights = {name.removeprefix("start/"): one for name, one in tensors.items() if name.startswith("start/")}
    start = PointerSelector(config).to(next(iter(weights.values())).dtype)
    start.load_state_dict(weights)
    groups = Groups(ids=ids, **data)
    if stage == "rce":
        return train_rce(start, groups, RceSettings(**settings), seed=seed, validate=validate, place=place)
    return train_grpo(start, groups, GrpoSettings(**settings), seed=seed, validate=validate, place=place, judge=judge)


def _place(job: dict[str, Any], device: str, team: Ranks) -> TrainingPlace:
    folder = Path(job["folder"]) if job["folder"] else None
    return TrainingPlace(folder, device, amp=job["amp"], save_every=job["save_every"], team=team)


def _validating(channel: Channel | None) -> Validate:
    def validate(selector: PointerSelector) -> float:
        return _asked(channel, {"say": "validate"}, selector.state_dict())["accuracy"]

    return validate


def _judging(channel: Channel | None) -> Judge:
    def judge(drawn: Sequence[tuple[int, tuple[int, ...]]]) -> list[float]:
        return _asked(channel, {"say": "judge", "drawn": drawn})["rewards"]

    return judge


def _asked(channel: Channel | None, said: dict[str, Any], tensors: dict[str, Tensor] | None = None) -> dict[str, Any]:
    """The answer of the process that started us."""
    if channel is None:
        raise WorkerFailed("only rank 0 asks")
    channel.send(said, tensors)
    answer = channel.receive()
    if answer is None:
        raise WorkerFailed("the process that started the training has gone")
    return answer.said


def _connected(folder: Path) -> Channel:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(folder / CHANNEL))
    return Channel(connection)


def _end_with(parent: int, end: Callable[[], object]) -> None:
    """Call `end` when the process that started this one has gone."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_S)
        end()

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    if len(sys.argv) == 4:
        sys.exit(launch(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
    work(Path(sys.argv[1]), int(sys.argv[2]))
