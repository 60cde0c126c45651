"""The variational autoencoder of appendix C.1: discrete latents, one or more layers of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Bernoulli, Distribution, Independent, OneHotCategorical

Architecture = Literal["nonlinear", "linear"]
SLOPE = 0.3  # of LeakyReLU, appendix C.1


class DiscreteVAE(nn.Module):
    r"""Latents $z_1, \dots, z_L$ above an image x; $q(z|x) = \prod_l q(z_l|z_{l-1})$, $z_0 = x$.

    The generative side is $p(z_L) \prod_l p(z_{l-1}|z_l)$ with a uniform prior $p(z_L)$. With
    binary latents and L = 1 it is the model of the paper.

    Shapes: the latents of a layer are ``(..., latents)`` where ``classes`` is 2, zeros and ones.
    With more classes they are one-hot vectors, ``(..., latents, classes)``. Logits have the same
    shape as the latents that they belong to.

    Args:
        mean: mean image, subtracted from the encoder's input, ``(pixels,)`` in [0, 1].
        latents: number of latents in each layer.
        classes: states of a latent.
        hidden: width of each of the two hidden layers of every network.
        architecture: ``"linear"`` leaves the hidden layers out.
        layers: L.
        generator: source of the initial weights, on the CPU.
    """

    mean: Tensor

    def __init__(
        self,
        mean: Tensor,
        *,
        latents: int = 200,
        classes: int = 2,
        hidden: int = 200,
        architecture: Architecture = "nonlinear",
        layers: int = 1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.event = (latents,) if classes == 2 else (latents, classes)
        self.classes, self.layers = classes, layers
        hidden_widths = [hidden, hidden] if architecture == "nonlinear" else []
        width = math.prod(self.event)
        below = [mean.shape[0]] + [width] * (layers - 1)
        self.encoders = nn.ModuleList(network([size, *hidden_widths, width]) for size in below)
        self.decoders = nn.ModuleList(network([width, *hidden_widths, size]) for size in below)
        self.register_buffer("mean", mean)
        initialise(self, generator)

    def encode(self, layer: int, below: Tensor) -> tuple[Tensor, Tensor]:
        """The logits of one layer's latents, and the encoder's last hidden layer, detached.

        Args:
            layer: which layer, counted from 0.
            below: the image minus the mean image, ``(..., pixels)``, or the latents of the layer
                below, flat.
        """
        encoder = self.encoders[layer]
        assert isinstance(encoder, nn.Sequential)
        hidden = encoder[:-1](below)  # the input itself where there are no hidden layers
        logits: Tensor = encoder[-1](hidden)
        return logits.unflatten(-1, self.event), hidden.detach()

    def f(self, images: Tensor, latents: Sequence[Tensor], logits: Sequence[Tensor]) -> Tensor:
        r"""$f = \log q(z|x) - \log p(x, z)$, whose mean under q is the negative ELBO.

        f is defined for latents between 0 and 1 too: both log q and the decoders accept them. Some
        estimators evaluate f at the mean of q.

        Args:
            images: zeros and ones, ``(batch, pixels)``.
            latents: of every layer, ``(n, batch, *event)`` or, shared by all samples,
                ``(batch, *event)``; at least one has the first form.
            logits: of $q(z_l|z_{l-1})$, in matching shapes.

        Returns:
            ``(n, batch)``.
        """
        log_prior = -self.event[0] * math.log(self.classes)
        pixels = self.decoders[0](self.flat(latents[0]))  # logits
        value = -pixel_log_prob(pixels, images) - log_prior
        for layer, (z, z_logits) in enumerate(zip(latents, logits, strict=True)):
            value = value + self.log_prob(z_logits, z)
            if layer > 0:
                below = self.decoders[layer](self.flat(z)).unflatten(-1, self.event)
                value = value - self.log_prob(below, latents[layer - 1])
        return value

    def f_of_layer(
        self,
        images: Tensor,
        below: Sequence[Tensor],
        logits: Sequence[Tensor],
        generator: torch.Generator | None,
        noise: CommonNoise | None = None,
    ) -> Callable[[Tensor], Tensor]:
        """f as a function of the latents of layer ``len(below)``.

        The layers above are drawn independently, or all from the same noise. The weights of their
        encoders are constants here: the mean of that gradient is zero under q.

        Args:
            images: zeros and ones, ``(batch, pixels)``.
            below: latents of the layers below, ``(batch, *event)`` each.
            logits: of those layers and of this one, detached.
            generator: source of the layers above.
            noise: what all samples draw the layers above from, so that f is one function of them.
        """

        def f(z: Tensor) -> Tensor:
            latents, every_logits = [*below, z], list(logits)
            for encoder in self.encoders[len(latents) :]:
                constants = {name: value.detach() for name, value in encoder.named_parameters()}
                found = torch.func.functional_call(encoder, constants, self.flat(latents[-1]))
                every_logits.append(found.unflatten(-1, self.event))
                if noise is None:
                    latents.append(self.draw(every_logits[-1], generator))
                else:
                    uniforms = noise.uniforms(len(latents), every_logits[-1][0])
                    latents.append(self.draw_from(every_logits[-1], uniforms))
            return self.f(images, latents, every_logits)

        return f

    def posterior(self, logits: Tensor) -> Distribution:
        """q of one layer: independent latents. Arguments are not checked, to save time."""
        one: Distribution
        if self.classes == 2:
            one = Bernoulli(logits=logits, validate_args=False)
        else:
            one = OneHotCategorical(logits=logits, validate_args=False)
        return Independent(one, 1, validate_args=False)

    def log_prob(self, logits: Tensor, z: Tensor) -> Tensor:
        """Log-probability of one layer's latents, linear in ``z`` between 0 and 1."""
        if self.classes == 2:
            return (z * logits).sum(-1) - F.softplus(logits).sum(-1)
        return (z * logits.log_softmax(-1)).sum((-2, -1))

    @torch.no_grad()
    def draw(self, logits: Tensor, generator: torch.Generator | None) -> Tensor:
        """Independent latents, like ``logits``."""
        if self.classes == 2:
            return torch.bernoulli(torch.sigmoid(logits), generator=generator)
        flat = logits.softmax(-1).flatten(0, -2)
        index = torch.multinomial(flat, 1, generator=generator).view(logits.shape[:-1])
        return F.one_hot(index, self.classes).to(logits.dtype)

    @torch.no_grad()
    def draw_from(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        """Latents like ``logits`` from uniforms of the same shape, which n samples may share."""
        if self.classes == 2:
            return (uniforms < torch.sigmoid(logits)).to(logits.dtype)
        gumbel = -(-uniforms.clamp(min=torch.finfo(uniforms.dtype).tiny).log()).log()
        return F.one_hot((logits + gumbel).argmax(-1), self.classes).to(logits.dtype)

    def flat(self, z: Tensor) -> Tensor:
        """Latents as a network's input: ``(..., latents * classes)`` for one-hot vectors."""
        return z.flatten(-len(self.event))

    def draw_all(
        self, images: Tensor, n: int, generator: torch.Generator | None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """n independent samples of every layer's latents and their logits, for evaluation."""
        first, _ = self.encode(0, images - self.mean)
        logits = [first]
        latents = [self.draw(first.expand(n, *first.shape), generator)]
        for layer in range(1, self.layers):
            logits.append(self.encode(layer, self.flat(latents[-1]))[0])
            latents.append(self.draw(logits[-1], generator))
        return latents, logits

    @torch.no_grad()
    def generate(self, count: int, generator: torch.Generator | None) -> Tensor:
        """Means of images drawn from the model, ``(count, pixels)``."""
        z = self.draw(self.mean.new_zeros((count, *self.event)), generator)
        for decoder in reversed(self.decoders[1:]):
            z = self.draw(decoder(self.flat(z)).unflatten(-1, self.event), generator)
        return torch.sigmoid(self.decoders[0](self.flat(z)))


class CommonNoise:
    """Random numbers that are drawn once and then used by every sample, until they are renewed.

    Args:
        generator: their source.
    """

    def __init__(self, generator: torch.Generator | None) -> None:
        self._generator = generator
        self._kept: dict[int, Tensor] = {}

    def renew(self) -> None:
        """Forget them: the next ones are drawn anew."""
        self._kept.clear()

    def uniforms(self, layer: int, like: Tensor) -> Tensor:
        """The uniforms of a layer, like one sample's logits ``(batch, *event)``."""
        if layer not in self._kept:
            self._kept[layer] = torch.rand(
                like.shape, dtype=like.dtype, device=like.device, generator=self._generator
            )
        return self._kept[layer]


def network(widths: Sequence[int]) -> nn.Sequential:
    """Linear layers of these widths, with LeakyReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.LeakyReLU(SLOPE, inplace=True)]
    return nn.Sequential(*layers[:-1])


def initialise(model: nn.Module, generator: torch.Generator | None) -> None:
    """Draw the weights and biases of all linear layers, with the law of `torch.nn.Linear`."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            bound = layer.in_features**-0.5
            for value in layer.parameters():
                nn.init.uniform_(value, -bound, bound, generator=generator)


def pixel_log_prob(logits: Tensor, images: Tensor) -> Tensor:
    """Log-probability of images, ``(batch, pixels)``, for each of n samples' logits."""
    entropy = F.binary_cross_entropy_with_logits(logits, images.expand_as(logits), reduction="none")
    return -entropy.sum(-1)
