"""What is measured of a run, when, and on which images."""

from __future__ import annotations

from torch import Tensor

import dbsurf
from dbsurf.experiments.vae.evaluation import bounds, fixed_images, gradient_spread, warm_up
from dbsurf.experiments.vae.options import Options
from dbsurf.experiments.vae.pictures import COLUMNS
from dbsurf.experiments.vae.training import Trainer

WARM_UP = 200  # draws for an estimator that learns before it is compared: all it will ever know

# Everything the library offers for bits, as a comparison at fixed parameters shows it.
COMPARED: tuple[tuple[str, dict[str, object]], ...] = (
    ("loorf", {}),
    ("disarm", {}),
    ("arms", {}),
    ("doublecv", {}),
    ("dbsurf", {}),
    ("dbsurf", {"debias": True}),
    ("dbsurf", {"alpha": "preserve", "debias": True}),
    ("mdsurf", {}),
)


class Measures:
    """The evaluations of one run.

    Args:
        options: sizes.
        trainer: the model, its estimators and its training images.
        test: test images, bytes.
    """

    def __init__(self, options: Options, trainer: Trainer, test: Tensor) -> None:
        self.options, self.trainer = options, trainer
        self._train, self._test = trainer.batches.images, test
        self._subset = {
            "train": fixed_images(self._train, options.evaluation_images),
            "test": fixed_images(self._test, options.evaluation_images),
        }
        self._probe = fixed_images(self._train, options.variance_images).to(trainer.model.mean)

    def during_training(self) -> dict[str, float | None]:
        """-ELBO on the fixed subsets, and the gradient's spread for the training estimator."""
        model, samples = self.trainer.model, self.options.evaluation_samples
        found: dict[str, float | None] = {
            f"{name}_negative_elbo": bounds(model, images, samples).elbo
            for name, images in self._subset.items()
        }
        variance = mean_square = None
        if self.options.variance_draws:
            estimator = self.trainer.estimators[0]
            assert isinstance(estimator, dbsurf.Estimator)
            variance, mean_square = self._spread(estimator)
        return {**found, "gradient_variance": variance, "gradient_mean_square": mean_square}

    def at_the_end(self) -> dict[str, float]:
        """-ELBO and importance-weighted bound, by default on all images."""
        model, options = self.trainer.model, self.options
        found: dict[str, float] = {}
        for name, pixels in (("train", self._train), ("test", self._test)):
            images = fixed_images(pixels, options.final_images)
            elbo = bounds(model, images, options.evaluation_samples).elbo
            fewer = fixed_images(pixels, options.bound_images)
            importance = bounds(model, fewer, options.bound_samples).importance
            found |= {f"{name}_negative_elbo": elbo, f"{name}_bound": importance}
        return found

    def all_variances(self) -> list[dict[str, object]]:
        """The spread of every estimator at the present parameters, with the run's n."""
        found: list[dict[str, object]] = []
        for name, extras in COMPARED:
            estimator = dbsurf.get(name, self.options.n, validate=False, **extras)
            estimator.to(self._probe.device)
            if list(estimator.buffers()):
                warm_up(self.trainer.model, estimator, self._probe, WARM_UP)
            variance, mean_square = self._spread(estimator)
            found.append(
                {
                    "estimator": name,
                    "options": extras,
                    "variance": variance,
                    "mean_square": mean_square,
                }
            )
        return found

    def shown(self) -> Tensor:
        """Test images for the picture."""
        return fixed_images(self._test, 2 * COLUMNS).to(self._probe.dtype)

    def _spread(self, estimator: dbsurf.Estimator) -> tuple[float, float]:
        draws = max(2, self.options.variance_draws)
        spread = gradient_spread(self.trainer.model, estimator, self._probe, draws)
        return spread.variance, spread.mean_square
