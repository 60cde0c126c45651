"""Estimators in several processes: forked ones, spawned ones, and data parallelism with gloo.

The truth and the test are those of `storm.oracle`. Spawned processes serve many trials, because it
takes seconds to start one.
"""

from __future__ import annotations

import atexit
import copy
import functools
import io
import os
import pickle
import random
import shutil
import tempfile
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

import dbsurf
from storm.problems import Problem, Setting, backward, estimator, tried
from storm.results import Result

LIMIT = 150.0
PROCESSES = 2
WAIT = 60  # seconds for an answer of a process


def share(problem: Problem, E: dbsurf.Estimator) -> Tensor:
    """What one process has of a batch."""
    whole = problem.batch(E)
    return whole.detach()[: len(whole) // PROCESSES].clone().requires_grad_()


def begun(problem: Problem, draw: random.Random) -> dbsurf.Estimator:
    """An estimator that may have learned something before the processes part."""
    E = estimator(draw)
    for _ in range(draw.choice([0, 3])):
        E.estimate(problem.f, problem.law(problem.copies(8)))
    return E


def fork(problem: Problem, draw: random.Random) -> tuple[dbsurf.Estimator, Tensor]:
    """Children of a process that has worked with torch, each with a seed of its own."""
    E = begun(problem, draw)
    seeds = [draw.randrange(2**31) for _ in range(PROCESSES)]
    backward(problem, E, problem.copies(8))  # torch has worked, and the state is made
    answers = []
    for seed in seeds:
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reading)
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(answered("spawn", problem, E, seed), pipe)
                pipe.flush()
                os._exit(0)
        os.close(writing)
        answers.append((pid, reading))
    contents = []
    for pid, reading in answers:
        with os.fdopen(reading, "rb") as pipe:
            contents.append(pipe.read())
        os.waitpid(pid, 0)
    return E, torch.cat([unpacked(pickle.loads(content)) for content in contents])


def spawn(problem: Problem, draw: random.Random) -> tuple[dbsurf.Estimator, Tensor]:
    """The estimator and its state go to new processes by pickle."""
    E = begun(problem, draw)
    if draw.random() < 0.5:
        E = copy.deepcopy(E)
    return E, torch.cat(workers().ask("spawn", problem, E, draw.randrange(2**31)))


def data_parallel(problem: Problem, draw: random.Random) -> tuple[dbsurf.Estimator, Tensor]:
    """The mean of two processes' gradients, and of what their estimators have learned."""
    E = begun(problem, draw)
    first, second = workers().ask("data parallel", problem, E, draw.randrange(2**31))
    if not torch.equal(first, second):
        raise AssertionError("the processes have different gradients")
    return E, first


# --- in the processes -----------------------------------------------------------------------------


def spawned(problem: Problem, E: dbsurf.Estimator) -> Tensor:
    return backward(problem, E, share(problem, E))


def parallel(problem: Problem, E: dbsurf.Estimator) -> Tensor:
    E.estimate(problem.f, problem.law(problem.copies(8)))  # a state must be there to be averaged
    wrapped = DistributedDataParallel(Model(problem, E))
    wrapped().backward()
    dbsurf.average_states(E)
    state = torch.cat([t.double().flatten() for t in E.state_dict().values()] or [torch.zeros(1)])
    every = [torch.zeros_like(state) for _ in range(PROCESSES)]
    distributed.all_gather(every, state)
    if not torch.equal(*every):
        raise AssertionError("the processes have different states after average_states")
    found = wrapped.module.logits.grad
    assert found is not None
    return found


class Model(nn.Module):
    """Logits for every copy; an estimator with parameters of its own stays outside."""

    def __init__(self, problem: Problem, E: dbsurf.Estimator) -> None:
        super().__init__()
        self.logits = nn.Parameter(share(problem, E).detach())
        self.problem, self.hidden = problem, [E]
        if not list(E.parameters()):
            self.estimator = E

    def forward(self) -> Tensor:
        value: Tensor = self.hidden[0](self.problem.f, self.problem.law(self.logits))
        return value.sum()


TASKS = {"spawn": spawned, "data parallel": parallel}


def answered(task: str, problem: Problem, E: dbsurf.Estimator, seed: int) -> tuple[str, Any]:
    """A gradient as bytes, or an error by its name and words."""
    torch.manual_seed(seed)
    try:
        content = io.BytesIO()
        torch.save(TASKS[task](problem, E), content)
    except Exception as error:
        return type(error).__name__, str(error)
    return "", content.getvalue()


def unpacked(answer: tuple[str, Any]) -> Tensor:
    name, content = answer
    if name == "ValueError":
        raise ValueError(content)
    if name:
        raise RuntimeError(f"{name} in a process: {content}")
    found: Tensor = torch.load(io.BytesIO(content), weights_only=True)
    return found


def serve(rank: int, pipe: Connection, folder: str) -> None:
    """Answer until the pipe is closed."""
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=PROCESSES,
        timeout=timedelta(seconds=WAIT),
    )
    while True:
        try:
            task, problem, E, seed = pickle.loads(pipe.recv_bytes())
        except EOFError:
            return
        pipe.send_bytes(pickle.dumps(answered(task, problem, E, seed + rank)))


class Workers:
    """Spawned processes that are one group of torch.distributed."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.folder = tempfile.mkdtemp(prefix="storm-meeting-")
        self.pipes: list[Connection] = []
        self.processes = []
        for rank in range(PROCESSES):
            own, other = context.Pipe()
            process = context.Process(target=serve, args=(rank, other, self.folder), daemon=True)
            process.start()
            other.close()
            self.pipes.append(own)
            self.processes.append(process)
        atexit.register(self.stop)

    def ask(self, task: str, problem: Problem, E: dbsurf.Estimator, seed: int) -> list[Tensor]:
        words = pickle.dumps((task, problem, E, seed))
        for pipe in self.pipes:
            pipe.send_bytes(words)
        answers = []
        for pipe in self.pipes:
            if not pipe.poll(WAIT):
                raise TimeoutError(f"no answer of a process within {WAIT} seconds")
            answers.append(pickle.loads(pipe.recv_bytes()))
        return [unpacked(answer) for answer in answers]

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


workers = functools.cache(Workers)

SETTINGS: dict[Setting, int] = {fork: 2, spawn: 1, data_parallel: 1}


def trial(draw: random.Random, place: Path) -> Result:
    return tried(SETTINGS, draw)
