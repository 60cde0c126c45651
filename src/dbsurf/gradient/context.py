"""Features for each batch element, and the sizes that a learned state was built for."""

from __future__ import annotations

from torch import Tensor

from dbsurf import checks
from dbsurf.distributions import Coordinates


def features_of(context: Tensor | None, law: Coordinates) -> int:
    """The number of features of a context, 0 if there is none; a wrong context is an error."""
    if context is None:
        return 0
    wanted = (
        f"context must be a floating-point tensor {tuple(law.batch_shape)} with features behind"
    )
    if not isinstance(context, Tensor) or not context.is_floating_point():
        got = context.dtype if isinstance(context, Tensor) else type(context).__name__
        raise ValueError(f"{wanted} (*batch, features), got {got}")
    if context.ndim != len(law.batch_shape) + 1 or context.shape[:-1] != law.batch_shape:
        raise ValueError(f"{wanted} (*batch, features), got shape {tuple(context.shape)}")
    return context.shape[-1]


def check_declared(size: object, features: object) -> None:
    """Check the sizes that a state is built for before its first call."""
    if size is not None:
        checks.whole(size, "size", minimum=1)
    checks.whole(features, "context")
    if features and size is None:
        raise ValueError("context must go with size=, got a number of features without it")


def check_context(context: Tensor | None, law: Coordinates, *, finite: bool) -> None:
    """Check the features of a call, also for an estimator that does not use them."""
    features_of(context, law)
    if context is not None and finite and not checks.transformed():
        checks.finite_tensor(context, "context must be finite")


def check_sizes(known: Tensor, size: int, features: int) -> None:
    """Check that a call has the sizes that the state was built for.

    Args:
        known: the numbers of coordinates and features, as a tensor.
        size: coordinates of this call.
        features: features of this call.
    """
    if checks.transformed():
        return
    coordinates, of_context = known.tolist()
    if (size, features) != (coordinates, of_context):
        raise ValueError(
            f"dist and context must have {coordinates} coordinates and {of_context} features as in "
            f"earlier calls, got {size} and {features}"
        )


def check_first_call(owner: object) -> None:
    """Check that a state can be made here: not inside a transform of torch.func."""
    if checks.under_transform():
        raise ValueError(
            f"{type(owner).__name__} must be called once before it is used under torch.func, or "
            "built with size=, got its first call: there its state is made"
        )
