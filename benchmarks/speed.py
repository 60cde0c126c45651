"""Cost of drawing and of estimating, over what torch itself needs to draw.

Run with `python benchmarks/speed.py`. Each line is `name ratio target ok|short`; all ratios of a
shape come from one interleaved run on one thread. Exits with status 1 if any is short.
"""

from __future__ import annotations

import torch
from ratios import medians, report
from torch.distributions import Bernoulli, Categorical, Independent

import dbsurf
from dbsurf.distributions import coordinates
from dbsurf.samplers import DBSample, MinDiscrepancy

SHAPES = [(4, 100, 200), (16, 100, 200), (8, 512, 1024)]


def bernoulli(shape: tuple[int, ...]) -> bool:
    n, batch = shape[0], shape[1]
    probs = torch.rand(shape[1:])
    logits = torch.logit(probs).requires_grad_()
    law = coordinates(Bernoulli(probs))
    constant = torch.rand(n, batch)  # f that costs nothing: what is timed is the estimator

    def estimate(estimator: dbsurf.Estimator) -> None:
        dist = Independent(Bernoulli(logits=logits, validate_args=False), 1)
        estimator(lambda x: constant, dist).sum().backward()
        logits.grad = None

    loorf, surf = dbsurf.LOORF(n), dbsurf.DBsurf(n)
    time = medians(
        {
            "rand": lambda: torch.rand(shape) < probs,
            "bernoulli": lambda: torch.bernoulli(probs.expand(shape)),
            "DBSample": lambda: law.draw(DBSample(), n, None),
            "MinDiscrepancy": lambda: law.draw(MinDiscrepancy(), n, None),
            "LOORF": lambda: estimate(loorf),
            "DBsurf": lambda: estimate(surf),
        }
    )
    label = "x".join(map(str, shape))
    results = []
    for name in ("DBSample", "MinDiscrepancy"):
        results.append(report(f"{name} {label} / rand < p", time[name] / time["rand"], 1.5))
        results.append(
            report(f"{name} {label} / torch.bernoulli", time[name] / time["bernoulli"], 1.0)
        )
    results += [
        report(f"{name} {label} / rand < p", time[name] / time["rand"], 3.0)
        for name in ("LOORF", "DBsurf")
    ]
    return all(results)


def categorical() -> bool:
    n, shape, categories = 5, (256, 6), 5
    probs = torch.softmax(torch.randn(*shape, categories), -1)
    flat, law = probs.view(-1, categories), coordinates(Categorical(probs))
    time = medians(
        {
            "multinomial": lambda: torch.multinomial(flat, n, replacement=True),
            "DBSample": lambda: law.draw(DBSample(), n, None),
        }
    )
    ratio = time["DBSample"] / time["multinomial"]
    return report("DBSample categorical 5x256x6x5 / torch.multinomial", ratio, 4.0)


if __name__ == "__main__":
    torch.manual_seed(0)
    outcomes = [bernoulli(shape) for shape in SHAPES] + [categorical()]
    raise SystemExit(0 if all(outcomes) else 1)
