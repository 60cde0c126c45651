"""The public interface of the library with random arguments, good and bad.

A trial writes a few lines of Python and runs them, so that a failure is printed as lines that
repeat it. Estimators join by `dbsurf.available`, laws and samplers by their modules; what their
constructors take is read from their signatures, with values from `VALUES`.

Good input must give finite numbers of the right shape and type, and, where an estimator says that
it is unbiased, the right mean. Bad input must raise a ValueError. Nothing else may be raised.
"""

from __future__ import annotations

import inspect
import itertools
import math
import random
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Independent

import dbsurf
from dbsurf import laws, samplers
from storm.chance import UNSEEN, quantile
from storm.results import Result

LIMIT = 120.0
LAW_ENDS = "# law"  # what stands before it only makes the distribution
HEAD = "import torch, dbsurf\nfrom torch.distributions import *\ntorch.manual_seed({seed})"

#: Arguments by name: values that make sense, and values that do not.
VALUES: dict[str, tuple[list[str], list[str]]] = {
    "n": (["2", "3", "4", "5", "8", "32"], ["0", "-1", "2.5", "'4'", "True", "None", "10**30"]),
    "alpha": (["0.0", "0.5", "1", "3.0", "'preserve'"], ["-1.0", "float('nan')", "'x'", "True"]),
    "debias": (["True", "False"], ["'yes'"]),
    "copula": (["'dirichlet'", "'gaussian'"], ["'x'", "3"]),
    "coefficient": (["None", "0.5"], ["float('nan')", "'x'"]),
    "decay": (["0.9"], ["-1.0", "2.0", "float('nan')"]),
    "uses": (["'mean'", "'gradient'", "'values'"], ["'x'"]),
    "rank": (["2", "4"], ["0", "-1", "'x'"]),
    "lr": (["0.01"], ["-1.0", "float('nan')"]),
    "baseline": (["None", "'running-mean'"], ["'x'"]),
    "tail": (["1e-3"], ["0.0", "2.0", "'x'", "float('nan')"]),
}
#: Laws with a parameter ``l`` of real numbers: expression, axes of an event, whether the last
#: axis of ``l`` counts categories.
LAWS = [
    ("Bernoulli(logits=l)", 0, False),
    ("Bernoulli(probs=torch.sigmoid(l))", 0, False),
    ("Independent(Bernoulli(logits=l), 1)", 1, False),
    ("Categorical(logits=l)", 0, True),
    ("OneHotCategorical(logits=l)", 1, True),
    ("Independent(Categorical(logits=l), 1)", 1, True),
    ("Independent(OneHotCategorical(logits=l), 1)", 2, True),
    ("Poisson(l.exp())", 0, False),
    ("Independent(Poisson(l.exp()), 1)", 1, False),
    ("Geometric(logits=l)", 0, False),
    ("Binomial(3, logits=l)", 0, False),
    ("NegativeBinomial(2.0, logits=l)", 0, False),
    ("dbsurf.Finite(torch.arange(3.0), logits=l)", 0, True),
]
FUNCTIONS = ["({x} - 0.4).square(){sum}", "{x}{sum} * 2.0", "({x}{sum} > 1).to({x}.dtype)"]
BAD_FUNCTIONS = [
    "lambda x: None",
    "lambda x: x.unsqueeze(-1)",
    "lambda x: ({x}){sum} * float('nan')",
    "lambda x: ({x}){sum}.long()",
    "lambda x: ({x}){sum}.unsqueeze(0)",
    "lambda x: x.add_(1){sum}",
    "lambda x: (x.data.add_(1), {x}{sum})[1]",
    "'not a function'",
]


def trial(draw: random.Random, place: Path) -> Result:
    torch.set_num_threads(1)
    kind = draw.choice([estimators, estimators, estimators, means, samples, exact_laws, comparison])
    code, good = kind(draw)
    subject = kind.__name__.replace("_", " ")
    space: dict[str, Any] = {"enumerated": enumerated}
    law, rest = code.split(LAW_ENDS) if LAW_ENDS in code else ("", code)
    try:
        exec(law, space)
    except Exception:  # torch's own check of its distributions has limits of its own
        return Result(subject, "not a law of torch")
    code = law + rest
    try:
        exec(rest, space)
    except ValueError as error:
        if own(error):
            return Result(subject, f"{'good' if good else 'bad'} input refused", inputs=1)
        return Result(subject, "foreign error", f"{code}\n# {last_line(error)}", inputs=1)
    except Exception as error:
        if not good and "<string>" in innermost(error):
            return Result(subject, "error of the user's own function", inputs=1)
        return Result(subject, "foreign error", f"{code}\n# {last_line(error)}", inputs=1)
    problem = judged(space, good)
    if problem:
        return Result(subject, "wrong answer", f"{code}\n# {problem}", inputs=1)
    compared = int(good and "truth" in space and comparable(space["E"]))
    answer = f"{'good' if good else 'doubtful'} input answered"
    return Result(subject, answer, inputs=1, compared=compared)


def own(error: ValueError) -> bool:
    """Whether a ValueError was raised on purpose, by dbsurf or by a distribution of torch."""
    frames = traceback.extract_tb(error.__traceback__)
    return any(part in frames[-1].filename for part in ("dbsurf", "torch/distributions"))


def innermost(error: BaseException) -> str:
    return traceback.extract_tb(error.__traceback__)[-1].filename


def last_line(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    first = str(error).splitlines()[0] if str(error) else ""
    return f"{type(error).__name__}: {first} ({Path(frame.filename).name}:{frame.lineno})"


# --- writing trials -------------------------------------------------------------------------------


def argument(draw: random.Random, name: str, bad: float = 0.04) -> tuple[str, bool]:
    """A value for the argument of that name, and whether it makes sense."""
    right, wrong = VALUES[name]
    good = draw.random() >= bad
    return draw.choice(right if good else wrong), good


def arguments(draw: random.Random, build: Any, skip: tuple[str, ...]) -> tuple[str, bool]:
    """Some of the options that ``build`` takes, as keywords."""
    words, good = [], True
    for name in inspect.signature(build).parameters:
        if name in VALUES and name not in skip and draw.random() < 0.5:
            text, right = argument(draw, name)
            words.append(f"{name}={text}")
            good &= right
    return ", ".join(words), good


def distribution(
    draw: random.Random, extreme: float = 0.25, *, quick: bool = False
) -> tuple[str, int, int, bool]:
    """Lines that make ``l`` and ``q``; axes of batch and event; whether all is good.

    A law of integers is a table of all likely ones, made at every estimate. ``quick`` laws have
    short ones.
    """
    law, event, categories = draw.choice(LAWS)
    shape = [draw.choice([1, 2, 3]) for _ in range(draw.randrange(3))]
    if "Independent" in law and len(shape) < 1:
        shape = [2]
    if draw.random() < 0.03 and shape:
        shape[draw.randrange(len(shape))] = 0
    dtypes = ["float32"] * 4 + ["float64"] * 2 + ["bfloat16", "float16"]
    dtype = draw.choice(dtypes)
    scale = draw.choice([30, 200]) if draw.random() < extreme else draw.choice([0, 1, 2])
    if "Poisson" in law or (quick and "Geometric" in law) or (quick and "Negative" in law):
        scale = min(scale, 2)
    axes = (*shape, 3) if categories else tuple(shape)
    text = f"l = ({scale} * torch.randn({axes}, dtype=torch.{dtype})).requires_grad_()\n"
    text += f"q = {law}{LAW_ENDS}"
    return text, len(shape) - (1 if "Independent" in law else 0), event, True


def function(draw: random.Random, event: int) -> tuple[str, bool]:
    good = draw.random() >= 0.08
    axes = f".sum({tuple(range(-event, 0))})" if event else ""
    if good:
        body = draw.choice(FUNCTIONS).format(x="x.to(l.dtype)", sum=axes)
        return f"f = lambda x: {body}", True
    return f"f = {draw.choice(BAD_FUNCTIONS).format(x='x.to(l.dtype)', sum=axes)}", False


def estimator(draw: random.Random) -> tuple[str, bool]:
    name = draw.choice(dbsurf.available())
    n, good_n = argument(draw, "n", 0.0 if name == "exact" else 0.04)  # exact does without n
    words, good = arguments(draw, type(dbsurf.get(name, 4)), ("n",))
    return f"E = dbsurf.get({name!r}, n={n}{', ' if words else ''}{words})", good_n and good


USES = [
    "y = E(f, q); y.sum().backward(); g = l.grad",
    "r = E.estimate(f, q); y, g = r.value, r.grad",
    "with torch.no_grad(): r = E.estimate(f, q); y, g = r.value, r.grad",
    "with torch.inference_mode(): r = E.estimate(f, q); y, g = r.value, r.grad",
    "x = E.draw(q); y = E.loss(x, f(x), q); y.sum().backward(); g = l.grad",
    "r = E.estimate(f, q, generator=torch.Generator().manual_seed(1)); y, g = r.value, r.grad",
    "r = E.estimate(f, q, chunk=2); y, g = r.value, r.grad",
]


def estimators(draw: random.Random) -> tuple[str, bool]:
    where, _, event, good_law = distribution(draw)
    f, good_f = function(draw, event)
    E, good_E = estimator(draw)
    head = HEAD.format(seed=draw.randrange(10**6))
    use = draw.choice(USES)
    if not good_f and "E.draw" in use:  # there it is the user who calls f, and changes samples
        use = USES[0]
    lines = [head, where, f, E, use]
    return "\n".join(lines), good_law and good_f and good_E


COPIES = 4096


def comparable(E: dbsurf.Estimator) -> bool:
    """Whether its mean must be the gradient of E[f]; that of a bound is another."""
    return E.unbiased and E.objective == "mean"


def enumerated(f: Callable[..., Tensor], law: Callable[[Tensor], Any], logits: Tensor) -> Tensor:
    """The gradient of the sum over all states of mass times f; nothing of the library is used."""
    leaf = logits.clone().requires_grad_()
    q = law(leaf)
    base = q.base_dist if isinstance(q, Independent) else q
    support = base.enumerate_support()  # (values, *batch, *event)
    states = list(support)
    if isinstance(q, Independent):
        choices = itertools.product(range(len(support)), repeat=len(base.logits))
        states = [torch.stack([support[k, i] for i, k in enumerate(one)]) for one in choices]
    total = torch.stack([(q.log_prob(x).exp() * f(x).detach()).sum() for x in states]).sum()
    return torch.autograd.grad(total, leaf)[0]


def means(draw: random.Random) -> tuple[str, bool]:
    """Many copies of a small problem in one batch: the mean gradient against the exact one."""
    law, event, categories = draw.choice([one for one in LAWS if "Poisson" not in one[0]][:7])
    shape = (2, 3) if categories else (3,)
    if event == 0 or (event == 1 and "Independent" not in law):
        shape = shape[1:] if categories else (1,)
    sums = f".sum({tuple(range(-event, 0))})" if event else ""
    body = draw.choice(FUNCTIONS[:2]).format(x="x.to(l.dtype)", sum=sums)
    E, good = estimator(draw)
    copies = COPIES // 8 if any(name in E for name in ("rodeo", "unordered")) else COPIES
    lines = [
        HEAD.format(seed=draw.randrange(10**6)),
        f"l = torch.randn({shape}, dtype=torch.float64); f = lambda x: {body}",
        E,
        f"truth = enumerated(f, lambda l: {law}, l)",
        f"l = l.expand({copies}, *l.shape); g = E.estimate(f, {law}).grad",
    ]
    return "\n".join(lines), good


def samples(draw: random.Random) -> tuple[str, bool]:
    where, _, _, good_law = distribution(draw)
    n, good = argument(draw, "n")
    head = HEAD.format(seed=draw.randrange(10**6))
    if draw.random() < 0.4:
        tail, right = argument(draw, "tail")
        use = f"x = dbsurf.sample(q, {n}, tail={tail})"
        good &= right
    else:
        name = draw.choice(
            [name for name in samplers.__all__ if not inspect.isabstract(getattr(samplers, name))]
        )
        words, right = arguments(draw, getattr(samplers, name), ())
        use = f"x = dbsurf.samplers.{name}({words}).sample(q, {n})"
        good &= right
    return "\n".join(
        [head, where, use, f"n = {n}; d = dbsurf.discrepancy(x, q)"]
    ), good and good_law


def exact_laws(draw: random.Random) -> tuple[str, bool]:
    known = [
        name
        for name, value in vars(laws).items()
        if inspect.isfunction(value)
        and not name.startswith("_")
        and value.__module__ == laws.__name__
        and next(iter(inspect.signature(value).parameters), "") == "probs"
        and set(inspect.signature(value).parameters) <= {"probs", "n", "alpha"}
    ]
    name = draw.choice(known)
    good = draw.random() >= 0.1
    usual = ["0.3", "0.5", "0.001", "0.999", "1e-12", "torch.linspace(0.05, 0.95, 7)"]
    p = draw.choice(usual if good else ["1.5", "-0.1", "float('nan')", "float('inf')"])
    dtype = draw.choice(["float32", "float64"])
    words = [f"torch.as_tensor({p}, dtype=torch.{dtype})"]
    for parameter in list(inspect.signature(getattr(laws, name)).parameters)[1:]:
        text, right = argument(draw, parameter)
        if parameter == "n" and right:
            text = draw.choice(["2", "4", "6", "8", "20", "60"])
        words.append(f"{parameter}={text}")
        good &= right
    return (
        f"import torch, dbsurf\nlaw = dbsurf.laws.{name}({', '.join(words)})\nname = {name!r}",
        good,
    )


def comparison(draw: random.Random) -> tuple[str, bool]:
    where, batch, event, good_law = distribution(draw, 0.1, quick=True)
    f, good_f = function(draw, event)
    n, good_n = argument(draw, "n")
    head = HEAD.format(seed=draw.randrange(10**6))
    if draw.random() < 0.5:
        return "\n".join([head, where, f, "r = dbsurf.exact(f, q); y, g = r.value, r.grad"]), (
            good_law and good_f
        )
    lines = [head, where, f, f"c = dbsurf.compare(f, q, n={n}, draws=10); str(c)"]
    return "\n".join(lines), good_law and good_f and good_n and batch >= 0


# --- judging what came out ------------------------------------------------------------------------


def judged(space: dict[str, Any], good: bool) -> str:
    """What is wrong with the answer to a trial; empty if nothing is."""
    if "law" in space:
        return judged_law(space["law"], space["name"], good)
    if "truth" in space:
        return judged_mean(space) if good else ""
    if not good and "d" in space:
        return "bad input was answered"
    if "x" in space and "d" in space:
        return judged_samples(space)
    if "y" not in space:
        return ""
    y, g, q = space["y"], space["g"], space["q"]
    if not good:  # (f that changes its samples changes nothing if there are none)
        return "" if space["l"].numel() == 0 else "bad input was answered"
    if y.shape != q.batch_shape:
        return f"the value has shape {tuple(y.shape)}, the batch {tuple(q.batch_shape)}"
    if g is None:
        return "no gradient"
    if not (bool(torch.isfinite(y).all()) and bool(torch.isfinite(g).all())):
        return f"not finite: value {y.flatten()[:3].tolist()}, gradient {g.flatten()[:3].tolist()}"
    if g.dtype != space["l"].dtype:
        return f"the gradient has {g.dtype}, the parameter {space['l'].dtype}"
    return ""


def judged_law(law: Any, name: str, good: bool) -> str:
    if not good:
        return "bad input was answered"
    for value in law if isinstance(law, tuple) else (law,):
        if not bool(torch.isfinite(value).all()):
            return f"not finite: {value.flatten()[:4].tolist()}"
        if "correlation" in name or "variance" in name or "alpha" in name or "bound" in name:
            continue
        if bool((value < -1e-6).any()) or bool((value > 1 + 1e-5).any()):
            return f"probabilities from {float(value.min()):g} to {float(value.max()):g}"
        if "count_law" in name and float((value.double().sum(0) - 1).abs().max()) > 1e-4:
            return f"probabilities that sum to {value.sum(0).flatten()[:3].tolist()}"
    return ""


def judged_mean(space: dict[str, Any]) -> str:
    """A z-test that also allows for events which are too rare for these draws to show.

    Near a probability at which n p is an integer, samples of minimum discrepancy give one gradient
    nearly always and another once in thousands of draws. The exact tests look closer.
    """
    if not comparable(space["E"]):
        return ""
    draws, truth = space["g"].double(), space["truth"].double()
    count = draws.numel() // truth.numel()
    draws = draws.reshape(count, *truth.shape)
    centred = draws - truth
    error = (centred.square().mean(0) / count).sqrt()
    most = quantile()
    slack = most**2 * centred.abs().max() / (3 * count) + UNSEEN / count * (1 + truth.abs())
    gap = (draws.mean(0) - truth).abs()
    if bool((gap > most * error + slack).any()):
        return f"the mean is off by up to {float(gap.max()):g}, {float(error.max()):g} is its error"
    return ""


def judged_samples(space: dict[str, Any]) -> str:
    x, q, n = space["x"], space["q"], space["n"]
    if x.shape != (n, *q.batch_shape, *q.event_shape):
        return f"samples of shape {tuple(x.shape)}"
    with suppress(NotImplementedError):  # torch draws no half-precision numbers of some laws
        if x.dtype != q.sample().dtype:
            return f"samples of {x.dtype}, torch's are {q.sample().dtype}"
    if not bool(torch.isfinite(space["d"]).all()):
        return "a discrepancy that is not finite"
    if x.numel() and not bool(q.support.check(x).all()):
        return "samples outside the support"
    if x.numel() and bool((q.log_prob(x) == -math.inf).any()):
        return "samples of probability 0"
    return ""
