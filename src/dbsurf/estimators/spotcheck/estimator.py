"""The estimator itself: the steps of a call, and its options."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from dbsurf import checks as check
from dbsurf.checks import in_sight
from dbsurf.distributions import Combination, Coordinates
from dbsurf.estimators.local_expectation import check_coordinates
from dbsurf.estimators.spotcheck.cells import Cells, Sizes
from dbsurf.estimators.spotcheck.checks import Checks, chances, choose, rows
from dbsurf.estimators.spotcheck.fade import Fade, either
from dbsurf.estimators.spotcheck.forms import (
    Evaluated,
    Shown,
    corrected,
    effects_of,
    leave_one_out,
    predicted,
)
from dbsurf.estimators.spotcheck.joint import cells_of
from dbsurf.estimators.spotcheck.memory import Known, Memory
from dbsurf.estimators.spotcheck.pairs import compared, left_over
from dbsurf.estimators.spotcheck.pool import Pool, choose_shared, groups_of, shared_chances
from dbsurf.gradient.context import check_first_call
from dbsurf.gradient.declaration import RELAXABLE_PARTS, GradF, Variant
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.function import Evaluator
from dbsurf.gradient.pipeline import Draw, Drawn, needs_own_samples
from dbsurf.gradient.registry import register
from dbsurf.samplers.base import uniform
from dbsurf.samplers.min_discrepancy import MinDiscrepancy


class Random(NamedTuple):
    """The random part of a draw beside the samples.

    Attributes:
        plain: whether this call has plain samples only, a boolean tensor.
        others: the samples beyond the first n, for that case, ``(m, B, M)``.
        start: the first of the systematic points that choose the checks, ``(B,)``.
        first: the same for the batch, ``(1,)``, where its elements share the checks.
    """

    plain: Tensor
    others: Tensor | None
    start: Tensor
    first: Tensor | None = None


class Prepared(NamedTuple):
    """What is fixed before f is evaluated: the moves of the samples, and what is known of them.

    Attributes:
        cells: the moves.
        known: what was learned from checks.
        larger: how large errors are by the rank of f, where elements share the checks.
    """

    cells: Cells
    known: Known
    larger: Tensor | None = None


class Probed(NamedTuple):
    """The points beyond the samples, and f there.

    Attributes:
        plain: whether these are plain samples.
        points: ``(m, B, M)``.
        values: f there, ``(m, *batch)``.
        checks: what was moved; None if nothing was.
        groups: the group of every sample by the rank of f, where elements share the checks.
    """

    plain: Tensor
    points: Tensor
    values: Tensor
    checks: Checks | None
    groups: Tensor | None = None


@register
class SpotCheck(Estimator[Coordinates]):
    r"""Predicts what flipping each bit does to f, checks a few flips, corrects by their errors.

    $$g = \frac1n\sum_i w \odot \hat\Delta(x_i) + \frac1m\sum_{j=1}^m
      \frac{w_k}{n\,q(i, k)}\bigl(\Delta_k(x_i) - \hat\Delta_k(x_i)\bigr)\,e_k
      \Big|_{(i, k) = (i_j, k_j)}, \qquad w = p(1-p)$$

    $\Delta_k(x) = f(x^{k\to1}) - f(x^{k\to0})$ is what bit k does to f, and
    $\hat\Delta_k(x) = \partial_k f(x) + s(x)\,C_k(\tfrac12 - x_k)$ its prediction: the derivative,
    and a learned curvature. m = ``checks`` pairs of a sample and a bit are drawn with
    probabilities q, most of them where errors were large, and f is evaluated with that bit
    flipped. The correction makes the estimate unbiased for every prediction. C, the scale s of a
    sample and the sizes of the errors are running regressions. For one-hot laws a check moves
    a coordinate to another class, C has an entry for each two classes, and a small network says how
    much more or less curved than that f is at a sample (`spotcheck.bends`).

    For one law of at most 1,024 bits or classes (`spotcheck.pairs.MOST`) the effect of a bit is
    fitted by the other bits as well, and $b\,w \odot A(\bar x - p)$ is taken out of g, with
    $\bar x$ the mean of the samples: its mean is 0 for every A and b that are fixed before the
    call. A is a running regression of $\hat\Delta(x_i)$ on x, and b one of g on that fit. This
    takes memory of d², and time of n d² for a batch element. Beyond 1,024, and for several laws
    together, it is off; so is the network for several laws.

    The estimator sees where its variance is larger than that of leave-one-out over n + m samples
    (`MDsurf`; one-hot: `LOORF`), and becomes that: where the gradient of f says nothing about
    flips, and where f does not change from call to call, so that the form with linear and pairwise
    terms that these fits make explains most of it. That form is the control variate of leave-one-
    out.

    Bias: none. Evaluations of f: n + checks; only the n samples are part of the backward pass.
    Needs the gradient of f at the samples, taken from the one backward that the loss does anyway.
    n >= 1. Bernoulli and one-hot categorical, also several of them in a tuple or dict: a check then
    moves one coordinate of one of them.

    Args:
        n: number of samples.
        checks: number of checks; None for n. A check needs no backward pass and takes less time
            than a sample: try more of them, as in ``SpotCheck(2, checks=6)``. For one-hot laws, or
            if f has no parameters of its own, try fewer samples, as in ``SpotCheck(1, checks=3)``.
        pooled: draw the checks of a batch together, as many as ``checks`` for each element, most of
            them at samples whose values of f had large errors so far. For heavy tails: where for
            most elements flips change nothing, and for a few very much. f is then evaluated several
            times for some elements and not at all for others, so all that it needs to know of an
            element must come by ``inputs=``.
        decay: factor on the running sums at each call.
        size: number of bits, or (coordinates, classes) of a one-hot law, or a list of these for
            several laws, to build the state at once instead of at the first call.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    In training mode the state changes when the backward runs, in `estimate` at once; in eval mode
    it stays as it is. f has to be the same function for all evaluations of a call: if it draws
    random numbers, it should use the same ones for all samples (see the guide).

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> E = dbsurf.SpotCheck(2)
        >>> q = Independent(Bernoulli(logits=theta), 1)
        >>> E(lambda x: (x - 0.49).square().sum(-1), q).backward()
        >>> theta.grad.shape
        torch.Size([3])

    Reference:
        Local expectations: Titsias and Lázaro-Gredilla, "Local expectation gradients for black
        box variational inference", NeurIPS 2015. One flip without a prediction: Kunes et al.,
        "Gradient estimation for binary latent variables via gradient variance clipping", 2022,
        arXiv 2208.06124.
    """

    accepts = RELAXABLE_PARTS
    grad_f = GradF.SAMPLES
    learns = True
    needs_call = True
    variants = (
        Variant(
            "SpotCheck",
            "#D81B60",
            choose="when f is differentiable in x: low variance without bias",
            cost="2 * n",
        ),
    )

    def __init__(
        self,
        n: int,
        *,
        checks: int | None = None,
        pooled: bool = False,
        decay: float = 0.99,
        size: int | tuple[int, int] | list[int | tuple[int, int]] | None = None,
        validate: bool = True,
    ) -> None:
        super().__init__(n, MinDiscrepancy(), validate=validate)
        self.checks = self.n if checks is None else check.whole(checks, "checks", minimum=1)
        check.decay(decay)
        self.decay = decay
        self.fade = Fade()
        self.pool = Pool(decay) if check.flag(pooled, "pooled") else None
        self.probes_after_f = pooled
        self.memory: Memory | None = None
        if size is not None:
            self._build(_sizes(size), self.fade.second.device)

    @property
    def evaluations(self) -> int:
        return self.n + self.checks

    @classmethod
    def with_evaluations(cls, count: int, **options: Any) -> Estimator:
        """The budget in halves, for samples and for checks, or what ``checks`` leaves over."""
        if options.get("checks") is None:
            options = {**options, "checks": max(count - count // 2, 1)}
        return cls(count - options["checks"], **options)

    # --- before f -------------------------------------------------------------------------------

    def draw_samples(self, law: Coordinates, generator: torch.Generator | None) -> Drawn:
        cells = cells_of(law)
        check_coordinates(self, cells.count)
        pairs = self._memory_for(cells, law.device).pairs
        plain, n = self.fade(None if pairs is None else pairs.left()), self.n
        uniforms = cells.spread_uniforms(n, generator)
        like = torch.empty(law.batch_shape.numel(), dtype=cells.dtype, device=law.device)
        start = uniform(like, 1, generator)[0]
        first = None if self.pool is None else uniform(like.new_empty(1), 1, generator)[0]
        if in_sight(plain) and not plain:
            return Drawn(cells.unflat(cells.spread(uniforms, n)), Random(plain, None, start, first))
        every = cells.plain(cells.uniforms(self.evaluations, generator))
        samples = either(plain, lambda: every[:n], lambda: cells.spread(uniforms, n))
        return Drawn(cells.unflat(samples), Random(plain, every[n:], start, first))

    def prepare(self, law: Coordinates, context: Tensor | None, f: Evaluator) -> Prepared:
        cells = cells_of(law)
        near = self.fade.near() & (self.n > 1)  # (one sample has no leave-one-out)
        known = self._memory_for(cells, law.device).read(cells, cells.dtype, near)
        return Prepared(cells, known, None if self.pool is None else self.pool.read(cells.dtype))

    def probe(self, draw: Draw[Coordinates], f: Evaluator) -> Probed:
        """Choose the checks and evaluate f there, or at the samples beyond the first n."""
        (cells, known, larger), (plain, others, start, first) = draw.prepared, draw.hidden
        if in_sight(plain) and plain:
            return Probed(plain, others, f.beside(cells.unflat(others)).detach(), None)
        samples, groups, elements = cells.flat(draw.samples), None, None
        if larger is None:
            checks = choose(chances(cells, samples, known.size), self.n, self.checks, start)
        else:
            groups = groups_of((draw.f_values + draw.baseline).reshape(samples.shape[:-1]))
            chance = shared_chances(cells, samples, known.size, larger[groups])
            checks = choose_shared(chance, self.checks, first, start)
            own = torch.arange(samples.shape[1], device=samples.device)
            elements = torch.where(plain, own, checks.element)
            elements = elements.reshape(-1, *draw.law.batch_shape)
        moved = cells.moved(rows(samples, checks), checks.cell)
        points = moved if others is None else either(plain, lambda: others, lambda: moved)
        values = f.beside(cells.unflat(points), elements).detach()
        return Probed(plain, points, values, checks, groups)

    # --- the estimate ---------------------------------------------------------------------------

    def combine(self, draw: Draw[Coordinates]) -> Combination:
        if draw.hidden is None:
            raise needs_own_samples(self)
        (cells, known, _), plain = draw.prepared, draw.hidden.plain
        at = Evaluated.of(draw)
        if in_sight(plain) and plain:
            gradient, shown = leave_one_out(cells, known, *at.together()), Shown()
            if known.slopes is not None:
                effects = effects_of(cells, at, predicted(cells, known, at))
                within = compared(known.slopes, *at.together())
                shown = Shown(effects=effects, within=within)
        else:
            gradient, shown = corrected(cells, known, at, draw.hidden.checks)
            if not in_sight(plain):
                every = leave_one_out(cells, known, *at.together())
                gradient = torch.where(plain, every, gradient)
                if known.slopes is not None and shown.within is not None:
                    within = compared(known.slopes, *at.together())
                    shown = shown._replace(within=torch.where(plain, within, shown.within))
        return Combination(None, offset=cells.offset(gradient), memo=(gradient, shown))

    # --- after the estimate ---------------------------------------------------------------------

    def learn(self, draw: Draw[Coordinates], combination: Combination) -> None:
        if draw.f_values.numel() == 0:  # an empty batch says nothing
            return
        known, plain = draw.prepared.known, draw.hidden.plain
        gradient, (seen, effects, within, blended) = combination.memo
        memory, left = self.memory, None
        if memory is not None and seen is not None:
            memory.update(known, seen, ~plain)
            if self.pool is not None:
                groups = rows(draw.hidden.groups, draw.hidden.checks)
                self.pool.update(groups, known, seen, ~plain)
        if memory is not None and memory.pairs is not None and within is not None:
            memory.pairs.update(known.slopes, effects, within, ~plain)
            left = left_over(within, known.slopes.trust)
        if memory is not None and memory.blend is not None and blended is not None:
            memory.blend.update(blended, ~plain)
        self.fade.update(plain, gradient, left)

    # --- state ----------------------------------------------------------------------------------

    def _memory_for(self, cells: Cells, device: torch.device) -> Memory:
        memory = self.memory or self._build(cells.sizes, device)
        if memory.built_for != cells.sizes:
            raise ValueError(
                f"dist must have {_words(memory.built_for)} as in earlier calls, "
                f"got {_words(cells.sizes)}"
            )
        return memory

    def _build(self, sizes: Sizes, device: torch.device) -> Memory:
        check_first_call(self)
        with torch.inference_mode(False):
            memory = Memory(sizes, self.decay)
            self.memory = memory.to(device, self.fade.second.dtype)
        return memory

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Make room for what a trained estimator has learned, in one that was never called."""
        sizes = state_dict.get(f"{prefix}memory.sizes")
        if self.memory is None and sizes is not None:
            pairs = sizes.reshape(-1, 2).tolist()  # (one pair of numbers for a law by itself)
            self._build(tuple((int(k), int(c)) for k, c in pairs), self.fade.second.device)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        return f"n={self.n}, checks={self.checks}{', pooled=True' if self.pool is not None else ''}"


# --- sizes ----------------------------------------------------------------------------------------


def _sizes(size: object) -> Sizes:
    """The numbers of coordinates and classes (1 for bits) that a user gave, for each part."""
    if isinstance(size, list):
        return tuple(pair for part in size for pair in _sizes(part))
    both = (size, 1) if isinstance(size, int) else size
    if not isinstance(both, tuple) or len(both) != 2:
        raise ValueError(
            "size must be the number of bits, or (coordinates, classes) of a one-hot law, or a "
            f"list of these for several laws, got {size!r}"
        )
    return ((check.whole(both[0], "size", minimum=1), check.whole(both[1], "size", minimum=1)),)


def _words(sizes: Sizes) -> str:
    each_part = [
        f"{coordinates} bits" if classes == 1 else f"{coordinates} coordinates of {classes} classes"
        for coordinates, classes in sizes
    ]
    return " and ".join(each_part)
