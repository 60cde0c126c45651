"""Cost of a VAE training step with the estimators of other papers, over LOORF's.

Run with `python benchmarks/peers.py`. Each line is `name ratio target ok|short`: n = 4, 200
latents, batch 100, one thread, medians of one interleaved run. Exits with status 1 if any is short.
"""

from __future__ import annotations

from ratios import medians, report
from vae import N, trainer, turns

import dbsurf

TARGETS = {"rodeo": 4.0, "arm": 1.5, "muprop": 2.0, "rebar": 6.0, "relax": 4.0}


def main() -> bool:
    names = ["loorf", *TARGETS]
    steps = {name: trainer(dbsurf.get(name, N, validate=False)).step for name in names}
    time = medians({name: turns(step) for name, step in steps.items()}, seconds=30)
    print(f"one LOORF step: {100 * time['loorf']:.2f} ms")
    outcomes = [
        report(f"{name} step / LOORF step", time[name] / time["loorf"], target)
        for name, target in TARGETS.items()
    ]
    return all(outcomes)


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
