"""All seeds of a supernet search, by one process or by several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from dbsurf_paper.experiments.nas.supernet.building import check, with_data
from dbsurf_paper.experiments.nas.supernet.options import SupernetOptions
from dbsurf_paper.experiments.nas.supernet.search import Search, summary
from dbsurf_paper.experiments.nas.supernet.workers import FabricWorkers, Workers
from dbsurf_paper.runs.device import choose_device, threads
from dbsurf_paper.runs.life import Life
from dbsurf_paper.runs.local_pool import all_results

if TYPE_CHECKING:
    from lightning_fabric import Fabric

EXPERIMENT = "nas"
SEED_STEP = 5  # the paper's seeds are 0, 5, 10, 15
Outcome = list[dict[str, Any]] | BaseException


def search(options: SupernetOptions) -> dict[str, Any]:
    """Do or finish all searches that ``options`` describe; returns the summary over them."""
    options = with_data(options)
    check(options)
    life = Life(EXPERIMENT, options)
    if life.summary is not None:
        return life.summary
    runs = one_a_seed(options)
    if options.devices * options.nodes == 1 and options.precision == "32":
        summaries = side_by_side(runs) if min(options.jobs, len(runs)) > 1 else alone(runs)
    else:
        summaries = launch(runs)
    if len(runs) == 1:
        return summaries[0]
    with life.opened():
        return life.finish(joined(options, summaries))


def one_a_seed(options: SupernetOptions) -> list[SupernetOptions]:
    """The options of each seed: in the folder itself, or in subfolders if there are several."""
    count, folder = options.seeds, options.folder()
    if count == 1:
        return [replace(options, seeds=1)]
    seeds = [options.seed + SEED_STEP * number for number in range(count)]
    return [replace(options, seeds=1, seed=seed, out=folder / f"seed-{seed}") for seed in seeds]


def joined(options: SupernetOptions, summaries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The results over all seeds."""
    return {
        "steps": summaries[0]["steps"],
        "evaluations": sum(one["evaluations"] for one in summaries),
        "seconds": sum(one["seconds"] for one in summaries),
        **summary(options, [cell for one in summaries for cell in one["found"]]),
    }


# --- processes ------------------------------------------------------------------------------------


def alone(runs: Sequence[SupernetOptions]) -> list[dict[str, Any]]:
    """One run after the other in this process."""
    return lead(runs, Workers(choose_device(runs[0].device)))


def side_by_side(runs: Sequence[SupernetOptions]) -> list[dict[str, Any]]:
    """Several runs at a time, each in a process: small networks gain nothing from more threads."""
    chosen = [[replace(options, threads=options.threads or 1)] for options in runs]
    return [summary for part in all_results(alone, chosen, runs[0].jobs) for summary in part]


def lead(runs: Sequence[SupernetOptions], workers: Workers) -> list[dict[str, Any]]:
    """Process 0: do the runs that are not finished, and tell the other processes when to step."""
    summaries = []
    try:
        for number, options in enumerate(runs, start=1):
            life = Life(EXPERIMENT, options, device=workers.device)
            found = life.summary
            if found is None:
                with life.opened():
                    found = complete(Search(options, workers, life), number, workers)
            summaries.append(found)
    finally:
        workers.tell(0)
    return summaries


def complete(job: Search, number: int, workers: Workers) -> dict[str, Any]:
    """Process 0: do one run, and tell the other processes when it begins and when it has ended."""
    workers.tell(number)
    try:
        job.restore()
        job.train()
    finally:
        workers.tell(0)
    return job.life.finish({**job.counted(), **job.results()})


def follow(runs: Sequence[SupernetOptions], workers: Workers) -> None:
    """The other processes: step when process 0 steps; a resumed run starts from its checkpoint."""
    while number := workers.told():
        options = runs[number - 1]
        with threads(options.thread_count()):
            job = Search(options, workers, Life(EXPERIMENT, options))
            if options.resume:
                job.restore()
            while workers.told():
                job.trainer.step()


def launch(runs: Sequence[SupernetOptions]) -> list[dict[str, Any]]:
    """The runs by Lightning Fabric, which starts the processes unless torchrun or srun did."""
    options = runs[0]
    try:
        from lightning_fabric import Fabric
    except ImportError as error:
        raise ValueError(
            "several devices and mixed precision need Lightning Fabric: "
            "pip install 'dbsurf-paper[cluster]'"
        ) from error
    started = options.nodes > 1 or torch.distributed.is_torchelastic_launched()
    strategy = "ddp" if started else "ddp_spawn"
    fabric = Fabric(
        accelerator=choose_device(options.device).type,
        strategy=strategy if options.devices * options.nodes > 1 else "auto",
        devices=options.devices,
        num_nodes=options.nodes,
        precision=options.precision,
    )
    outcome: Outcome = fabric.launch(partial(work, runs=list(runs)))
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def work(fabric: Fabric, runs: Sequence[SupernetOptions]) -> Outcome:
    """What each process does. Errors are returned as values: process 0 reports them for all."""
    workers = FabricWorkers(fabric, runs[0].precision)
    error: BaseException | None = None
    try:
        if workers.rank == 0:
            lead(runs, workers)
        else:
            follow(runs, workers)
    except (ValueError, OSError, KeyboardInterrupt) as caught:
        error = caught
    fabric.barrier()  # process 0 has written all its files
    workers.leave()
    summaries = [Life(EXPERIMENT, options).summary for options in runs]
    found = [summary for summary in summaries if summary is not None]
    if len(found) < len(runs):
        return error or ValueError("process 0 has stopped before the end")
    return found
