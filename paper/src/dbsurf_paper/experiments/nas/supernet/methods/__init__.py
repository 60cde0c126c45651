"""The search methods by name."""

from __future__ import annotations

from dbsurf_paper.experiments.nas.supernet.methods.base import Method
from dbsurf_paper.experiments.nas.supernet.methods.few_shot import FewShot, FewShotGM
from dbsurf_paper.experiments.nas.supernet.methods.mixtures import Darts, PcDarts
from dbsurf_paper.experiments.nas.supernet.methods.paths import Dsnas, Sampled, Uniform
from dbsurf_paper.experiments.nas.supernet.methods.relaxed import DrNas, Gdas, Snas

#: All methods, in the order of the paper's table 2; its own search comes first.
METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        Sampled,
        Uniform,
        Darts,
        PcDarts,
        Snas,
        DrNas,
        Gdas,
        Dsnas,
        FewShot,
        FewShotGM,
    )
}

__all__ = ["METHODS", "Method"]
