"""The binary VAE of appendix C.1, with one or more layers of stochastic bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Independent

from dbsurf.experiments.vae.likelihood import log_prob, pixel_log_prob
from dbsurf.experiments.vae.network import Network

Architecture = Literal["nonlinear", "linear"]


class BinaryVAE(nn.Module):
    r"""Bits $b_1, \dots, b_L$ above an image x; $q(b|x) = \prod_l q(b_l|b_{l-1})$ with $b_0 = x$.

    The generative side is $p(b_L) \prod_l p(b_{l-1}|b_l)$, the prior $p(b_L)$ being
    Bernoulli(1/2). With L = 1 it is the model of the paper.

    Args:
        mean: mean image, subtracted from the encoder's input, ``(pixels,)`` in [0, 1].
        latents: number of bits in each layer.
        hidden: width of each of the two hidden layers of every network.
        architecture: ``"linear"`` leaves the hidden layers out.
        layers: L.
    """

    mean: Tensor

    def __init__(
        self,
        mean: Tensor,
        *,
        latents: int = 200,
        hidden: int = 200,
        architecture: Architecture = "nonlinear",
        layers: int = 1,
    ) -> None:
        super().__init__()
        self.latents = latents
        pixels = mean.shape[0]
        widths = [hidden, hidden] if architecture == "nonlinear" else []
        below = [pixels] + [latents] * (layers - 1)
        self.encoders = nn.ModuleList(Network(size, widths, latents) for size in below)
        self.decoders = nn.ModuleList(Network(latents, widths, size) for size in below)
        self.register_buffer("mean", mean)

    @property
    def layers(self) -> int:
        return len(self.encoders)

    def centred(self, images: Tensor) -> Tensor:
        """What the first encoder sees."""
        return images - self.mean

    def energy(self, images: Tensor, bits: Sequence[Tensor], logits: Sequence[Tensor]) -> Tensor:
        r"""$f = \log q(b|x) - \log p(x, b)$, whose mean under q is the negative ELBO.

        Args:
            images: zeros and ones, ``(batch, pixels)``.
            bits: of every layer, ``(n, batch, latents)`` or, shared by all samples,
                ``(batch, latents)``; at least one has the first form.
            logits: of $q(b_l|b_{l-1})$, in matching shapes.

        Returns:
            ``(n, batch)``.
        """
        value = self.latents * math.log(2) - pixel_log_prob(self.decoders[0](bits[0]), images)
        for level, (b, ell) in enumerate(zip(bits, logits, strict=True)):
            value = value + log_prob(ell, b)
            if level > 0:
                value = value - log_prob(self.decoders[level](b), bits[level - 1])
        return value

    def continuation(
        self,
        images: Tensor,
        below: Sequence[Tensor],
        logits: Sequence[Tensor],
        generator: torch.Generator | None,
    ) -> Callable[[Tensor], Tensor]:
        """f as a function of the bits of layer len(below), the layers above drawn independently.

        Args:
            images: zeros and ones, ``(batch, pixels)``.
            below: bits of the layers below, ``(batch, latents)`` each.
            logits: of those layers and of the next, detached.
            generator: source of the layers above.
        """

        def f(b: Tensor) -> Tensor:
            bits, ells = [*below, b], list(logits)
            for encoder in self.encoders[len(bits) :]:
                assert isinstance(encoder, Network)
                ells.append(encoder.frozen(bits[-1]))
                bits.append(draw(ells[-1], generator))
            return self.energy(images, bits, ells)

        return f

    def chains(
        self, images: Tensor, n: int, generator: torch.Generator | None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """n independent samples of every layer and their logits, for evaluation."""
        logits = [self.encoders[0](self.centred(images))]
        bits = [draw(logits[0].expand(n, *logits[0].shape), generator)]
        for encoder in self.encoders[1:]:
            logits.append(encoder(bits[-1]))
            bits.append(draw(logits[-1], generator))
        return bits, logits

    @torch.no_grad()
    def generate(self, count: int, generator: torch.Generator | None) -> Tensor:
        """Means of images drawn from the model, ``(count, pixels)``."""
        bits = draw(self.mean.new_zeros((count, self.latents)), generator)
        for decoder in reversed(self.decoders[1:]):
            bits = draw(decoder(bits), generator)
        return torch.sigmoid(self.decoders[0](bits))


def draw(logits: Tensor, generator: torch.Generator | None) -> Tensor:
    """Independent bits."""
    uniforms = torch.rand(
        logits.shape, dtype=logits.dtype, device=logits.device, generator=generator
    )
    return uniforms.lt_(torch.sigmoid(logits.detach()))


def posterior(logits: Tensor) -> Independent[Bernoulli]:
    """Factorised Bernoulli law of one layer's bits, unchecked: it is built at every step."""
    return Independent(Bernoulli(logits=logits, validate_args=False), 1, validate_args=False)
