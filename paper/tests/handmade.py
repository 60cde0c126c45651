"""Run folders with numbers chosen by hand, as the experiments would leave them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dbsurf_paper.experiments.league import Options as LeagueOptions
from dbsurf_paper.experiments.league import measure
from dbsurf_paper.experiments.nas.options import TableOptions
from dbsurf_paper.experiments.nas.supernet.options import SupernetOptions
from dbsurf_paper.experiments.toy import Options as ToyOptions
from dbsurf_paper.experiments.vae import Options as VaeOptions
from dbsurf_paper.runs.folder import read_summary, write_summary
from dbsurf_paper.runs.records import write_metrics
from dbsurf_paper.runs.sealed import write_sealed

STEPS = 20_000
# A picture of one pixel.
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


def vae_run(place: Path, elbo: float, **options: Any) -> Path:
    """A finished run that falls to ``elbo`` + 10 in its first half, to ``elbo`` in its second.

    Evaluations and seconds are 100 n and a hundredth a step, the variance ten times the -ELBO.
    """
    chosen = VaeOptions(**{"steps": STEPS, **options})
    folder = unfinished_vae_run(place, elbo, **options)
    summary = {
        "experiment": "vae",
        "configuration": chosen.config(),
        "steps": chosen.steps,
        "evaluations": 100 * chosen.n * chosen.steps,
        "seconds": chosen.steps / 100,
        "train_negative_elbo": elbo,
        "test_negative_elbo": elbo + 1,
        "train_bound": elbo - 5,
        "test_bound": elbo - 4,
        "gradient_variance": 10 * elbo,
        "gradient_mean_square": 1.0,
    }
    if options.get("measure_variance"):
        summary["variance_by_estimator"] = [
            {"estimator": "loorf", "options": {}, "variance": 100.0, "mean_square": 1.0},
            {"estimator": "dbsurf", "options": {}, "variance": elbo, "mean_square": 1.0},
            {"estimator": "mdsurf", "options": {}, "variance": 50.0, "mean_square": 1.0},
        ]
    write_summary(folder, summary)
    (folder / "pictures.png").write_bytes(PNG)
    return folder


def unfinished_vae_run(place: Path, elbo: float, **options: Any) -> Path:
    """The same without its end."""
    chosen = VaeOptions(**{"steps": STEPS, **options})
    folder = place / chosen.folder().name
    folder.mkdir(parents=True)
    half, steps = chosen.steps // 2, chosen.steps
    levels = {0: 200.0, half: elbo + 10, steps: elbo}
    rows = [
        {
            "step": step,
            "evaluations": 100 * chosen.n * step,
            "seconds": step / 100,
            "train_negative_elbo": level,
            "test_negative_elbo": level + 1,
            "gradient_variance": 10 * elbo,
        }
        for step, level in levels.items()
    ]
    write_metrics(folder, rows)
    write_sealed(folder / "config.json", {"experiment": "vae", "configuration": chosen.config()})
    environment = {"torch": "2.13.0", "threads": 1, "device": "cpu", "revision": "abc1234"}
    environment["command"] = ["dbsurf", "vae"]
    write_sealed(folder / "environment.json", environment)
    return folder


def nas_run(place: Path, accuracies: list[float], landscape: str, **options: Any) -> Path:
    """A finished search by table, one cell a seed; it looked up 100 cells, 110 with the next..."""
    kind = SupernetOptions if options.pop("mode", "table") == "supernet" else TableOptions
    chosen = kind(**{"seeds": len(accuracies), "steps": 100, **options})
    folder = place / chosen.folder().name
    folder.mkdir(parents=True)
    cell = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|none~0|none~1|avg_pool_3x3~2|"
    found = [
        {
            "seed": seed,
            "index": 6111,
            "architecture": cell,
            "val_12": value - 10,
            "val_200": value - 1,
            "test_200": value,
            "distinct_queries": 100 + 10 * seed,
            "queries": 500,
        }
        for seed, value in enumerate(accuracies)
    ]
    summary = {
        "experiment": "nas",
        "configuration": chosen.config(),
        "landscape": landscape,
        "found": found,
        "seconds": 12.5,
    }
    lines = ["distinct_queries,val_12,test_200,test_200_error"]
    lines += [f"{10 * i},{60 + i},{70 + i},0.5" for i in range(1, 6)]
    (folder / "curves.csv").write_text("\n".join(lines) + "\n")
    write_summary(folder, summary)
    return folder


def toy_run(place: Path, **options: Any) -> Path:
    """A finished study with three statements of the paper and one beyond it, and a figure."""
    folder = place / "toy"
    folder.mkdir(parents=True)
    verdicts = ("holds", "holds", "holds in part", "holds")
    wheres = ("section 2.2", "section 2.3", "abstract", "beyond the paper")
    statements = [
        {"where": where, "claim": f"claim {i}", "verdict": verdict, "measured": f"measured {i}"}
        for i, (where, verdict) in enumerate(zip(wheres, verdicts, strict=True))
    ]
    summary = {
        "experiment": "toy",
        "configuration": ToyOptions(**options).config(),
        "seconds": 3.0,
        "statements": statements,
    }
    write_summary(folder, summary)
    for name in ("figure2", "figure6"):
        (folder / f"{name}.png").write_bytes(PNG)
    return folder


def league_run(place: Path, variances: dict[str, float], **options: Any) -> Path:
    """A finished run of the league with these variances at four evaluations; LOORF has 100.

    Their standard errors are a hundredth. "reinmax" is biased, its squared bias is 25.
    """
    chosen = LeagueOptions(**{"problem": "vae", **options})
    folder = place / chosen.name()
    folder.mkdir(parents=True)
    rows: list[dict[str, Any]] = []
    for label, variance in {"loorf": 100.0, **variances}.items():
        biased = label == "reinmax"
        rows.append(
            {
                "estimator": label,
                "n": 4,
                "evaluations": 4,
                "learned": "joint" if label.startswith("quadraticcv") else "-",
                "unbiased": int(not biased),
                "needs_grad_f": int(label == "quadraticcv" or biased),
                "draws": 50,
                "variance": variance,
                "variance_error": variance / 100,
                "squared_bias": 25.0 if biased else None,
                "bias_noise": 1.0 if biased else None,
                "milliseconds": 3.0,
                "loorf_milliseconds": 2.0,
            }
        )
    summary = {
        "experiment": "league",
        "configuration": chosen.config(),
        "title": f"{chosen.dataset} VAE",
        "seconds": 1.0,
        "left_out": {},
        "rows": measure.ratios(rows, "loorf"),
    }
    write_summary(folder, summary)
    return folder


def changed(folder: Path, *, without: tuple[str, ...] = (), **entries: Any) -> None:
    """Other results in a finished run, fewer files, as if it had written them itself."""
    summary = read_summary(folder)
    assert summary is not None
    for name in without:
        (folder / name).unlink()
    write_summary(folder, {**summary, **entries})
