"""A training across several processes of this machine, by torchrun's agent: the side that starts them.

here ── job ──► launcher (elastic agent) ── starts ──► ranks, each with its part of every batch (training_worker.py)
     ◄──────────── validate, judge, trained ────────── rank 0

Judge and validation stay in this process, where their model and their store are open; rank 0 asks for them over a Unix
socket in a folder that only this account can enter.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from safetensors.torch import load, save, save_file
from torch import Tensor

from models.pointer import PointerConfig, PointerSelector
from tasks.lever import errors
from tasks.lever.errors import LeverError, WorkerFailed
from tasks.lever.experience import Judge
from tasks.lever.groups import Groups, Labelled
from tasks.lever.learnable import tensors_of
from tasks.lever.records import CurvePoint, Stage
from tasks.lever.settings import Optimization
from tasks.lever.training_loop import Trained, TrainingPlace, Validate, seeded

JOB = "job.safetensors"
CHANNEL = "channel"
FAILURE = "failure.json"
LOGS = "logs"
LAUNCHER_LOG = "launcher.log"
SHOWN_LINES = 15
LOOK_S = 0.2
END_S = 15.0


class Message(NamedTuple):
    """What one side says to the other."""

    said: dict[str, Any]
    tensors: dict[str, Tensor]


class Channel:
    """Messages over a socket: a line of JSON, then tensors as safetensors. A context manager that closes it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._file = connection, connection.makefile("rwb")

    def send(self, said: Mapping[str, Any], tensors: Mapping[str, Tensor] | None = None) -> None:
        """Say something; to somebody who has gone it is nothing, which `receive` tells."""
        data = save({name: one.detach().cpu().contiguous() for name, one in (tensors or {}).items()})
        with suppress(ConnectionError):
            self._file.write(json.dumps({"said": said, "bytes": len(data)}).encode() + b"\n" + data)
            self._file.flush()

    def receive(self) -> Message | None:
        """What the other side says next; None when it has gone."""
        try:
            line = self._file.readline()
            if not line.endswith(b"\n"):
                return None
            header = json.loads(line)
            data = self._file.read(header["bytes"])
        except ConnectionError:
            return None
        return Message(header["said"], load(data)) if len(data) == header["bytes"] else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        with suppress(ConnectionError):  # what was not sent is for nobody
            self._file.close()
        self._connection.close()


def train_across(
    stage: Stage,
    start: PointerSelector | PointerConfig,
    data: Labelled | Groups,
    settings: Optimization,
    *,
    seed: int,
    validate: Validate,
    place: TrainingPlace,
    judge: Judge | None = None,
) -> Trained:
    """What the training of `stage` gives, made by `place.to_start` processes: the same as by one, but for rounding.

    Dropout, where it is on, is drawn by each process for itself. Raises WorkerFailed with the rank and its last words,
    the LeverError of the training, and whatever `judge` and `validate` raise; no process is left then.
    """
    config = start if isinstance(start, PointerConfig) else start.config
    with tempfile.TemporaryDirectory(prefix="trivet-training-") as name:
        folder = Path(name)
        _write_job(folder, stage, start, data, settings, seed=seed, place=place, judged=judge is not None)
        with (
            _listening(folder) as listener,
            _launched(folder, place) as launcher,
            Channel(_accepted(listener, launcher, folder)) as channel,
        ):
            while message := channel.receive():
                if message.said["say"] == "trained":
                    return _trained(message, config, place)
                channel.send(_answer(message, config, place, validate=validate, judge=judge))
            raise _failure(launcher, folder)


def _answer(
    message: Message, config: PointerConfig, place: TrainingPlace, *, validate: Validate, judge: Judge | None
) -> dict[str, Any]:
    """To what rank 0 asks. Raises what the training refuses."""
    match message.said:
        case {"say": "validate"}:
            with torch.no_grad():
                return {"accuracy": validate(_selector(config, message.tensors, place))}
        case {"say": "judge", "drawn": drawn} if judge:
            return {"rewards": list(judge([(row, tuple(pointer)) for row, pointer in drawn]))}
        case {"say": "refused", "kind": kind, "text": text}:
            raise getattr(errors, kind, LeverError)(text)
        case other:
            raise WorkerFailed(f"rank 0 said {other}, which nobody understands")


def _write_job(
    folder: Path,
    stage: Stage,
    start: PointerSelector | PointerConfig,
    data: Labelled | Groups,
    settings: Optimization,
    *,
    seed: int,
    place: TrainingPlace,
    judged: bool,
) -> None:
    config, weights = (start, {}) if isinstance(start, PointerConfig) else (start.config, start.state_dict())
    job = {
        "stage": stage,
        "config": config.model_dump(),
        "settings": settings.model_dump(),
        "ids": data.ids,
        "seed": seed,
        "judged": judged,
        "folder": str(place.folder) if place.folder else None,
        "device": place.device,
        "amp": place.amp,
        "save_every": place.save_every,
    }
    parts = {"data": tensors_of(data), "start": weights}
    tensors = {
        f"{part}/{name}": one.detach().cpu().contiguous()
        for part, named in parts.items()
        for name, one in named.items()
    }
    save_file(tensors, folder / JOB, metadata={"job": json.dumps(job)})


@contextmanager
def _listening(folder: Path) -> Generator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / CHANNEL))
        listener.listen(1)
        listener.settimeout(LOOK_S)
        yield listener


@contextmanager
def _launched(folder: Path, place: TrainingPlace) -> Generator[subprocess.Popen[bytes]]:
    """The agent and its ranks; at the end of the block they have ended, also at Ctrl-C."""
    with (folder / LAUNCHER_LOG).open("wb") as output:
        launcher = subprocess.Popen(
            [sys.executable, "-P", "-m", "tasks.lever.training_worker", folder, str(place.to_start), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=_environment(place),
            start_new_session=True,  # Ctrl-C is for us, and we end it
        )
    try:
        yield launcher
    finally:
        launcher.send_signal(signal.SIGTERM)  # the agent ends its ranks
        try:
            launcher.wait(END_S)
        except subprocess.TimeoutExpired:
            launcher.kill()  # and the ranks see that it has gone
            launcher.wait()


def _environment(place: TrainingPlace) -> dict[str, str]:
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
    ours = {
        "PYTHONPATH": os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")))),
        "GLOO_SOCKET_IFNAME": loopback,
        "NCCL_SOCKET_IFNAME": loopback,
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # its server would listen to the network; ours is a file
    }
    return dict(os.environ) | ours | ({"OMP_NUM_THREADS": "1"} if place.device == "cpu" else {})


def _accepted(listener: socket.socket, launcher: subprocess.Popen[bytes], folder: Path) -> socket.socket:
    """The connection of rank 0. Raises WorkerFailed if the processes end before there is one."""
    while launcher.poll() is None:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        connection.settimeout(None)
        return connection
    raise _failure(launcher, folder)


def _selector(config: PointerConfig, weights: dict[str, Tensor], place: TrainingPlace) -> PointerSelector:
    with seeded(0, torch.device("cpu")):
        selector = PointerSelector(config)
    selector.to(next(iter(weights.values())).dtype).load_state_dict(weights)
    return selector.to(place.device).eval()


def _trained(message: Message, config: PointerConfig, place: TrainingPlace) -> Trained:
    said = message.said
    return Trained(
        _selector(config, message.tensors, place),
        tuple(CurvePoint.model_validate(point) for point in said["curve"]),
        {int(epoch): accuracy for epoch, accuracy in said["validation"].items()},
        said["chosen_epoch"],
    )


def _failure(launcher: subprocess.Popen[bytes], folder: Path) -> WorkerFailed:
    """What ended the ranks, as the agent tells it, with the last lines of the first that failed."""
    launcher.wait()
    if not (folder / FAILURE).exists():
        lines = _last_lines(folder / LAUNCHER_LOG)
        return WorkerFailed(f"the processes of the training ended with exit code {launcher.returncode}:\n{lines}")
    failure = json.loads((folder / FAILURE).read_text())
    rank = failure["rank"]
    lines = "\n".join(_last_lines(path) for path in (folder / LOGS).glob(f"*/attempt_0/{rank}/stderr.log"))
    return WorkerFailed(
        f"rank {rank} of the training ended with exit code {failure['exitcode']}; run again, it goes on from the last "
        f"state that was kept. Its last lines:\n{lines}"
    )


def _last_lines(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-SHOWN_LINES:])
