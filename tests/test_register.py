"""An estimator that is defined here is known everywhere; what was renamed says its new name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.distributions import Bernoulli, Independent

import dbsurf
from dbsurf.estimators import Variant, unregister
from dbsurf.gradient import registry

HALF = Independent(Bernoulli(torch.full((3,), 0.5, dtype=torch.float64)), 1)


class Shifted(dbsurf.LOORF):
    """LOORF under another name, with an option that changes nothing."""

    variants = (Variant("shifted", "#123456", options={"shift": 2.0}),)

    def __init__(self, n: int, *, shift: float = 0.0, validate: bool = True) -> None:
        super().__init__(n, validate=validate)
        self.shift = shift


@pytest.fixture
def shifted() -> Iterator[type[dbsurf.Estimator]]:
    yield dbsurf.register(Shifted)
    unregister(Shifted)


def test_a_registered_class_is_found_by_name_and_compared(shifted):
    assert "shifted" in dbsurf.available()
    assert isinstance(dbsurf.get("Shifted", 8), Shifted)
    assert dbsurf.get("Shifted(8, shift=3.0)").shift == 3
    found = dbsurf.compare(lambda x: x.sum(-1).square(), HALF, 4, draws=20)
    assert "Shifted(4, shift=2.0)" in [row.estimator for row in found.rows]


def test_what_cannot_be_registered():
    with pytest.raises(ValueError, match="must be a subclass of dbsurf.Estimator, got"):
        dbsurf.register(int)

    class Silent(dbsurf.LOORF):
        """It inherits LOORF's variants, which are not its own."""

    with pytest.raises(ValueError, match="Silent must declare at least one variant, got none"):
        dbsurf.register(Silent)

    class LOORF(dbsurf.LOORF):
        """Another of the same name."""

        variants = (Variant("mine", "#123456"),)

    with pytest.raises(ValueError, match="must be new, got 'loorf', which is taken"):
        dbsurf.register(LOORF)


# --- from outside -------------------------------------------------------------------------------

OUTSIDE = """
import dbsurf
from dbsurf.estimators import Variant

class Mine(dbsurf.LOORF):
    "LOORF by another name."

@dbsurf.register
class Known(dbsurf.LOORF):
    "LOORF by a third name."
    variants = (Variant("known", "#654321"),)

number = 3
"""


@pytest.fixture
def outside(tmp_path, monkeypatch) -> Iterator[str]:
    """A module that is not part of the library, and its name."""
    (tmp_path / "some_outside.py").write_text(OUTSIDE)
    (tmp_path / "broken_outside.py").write_text("import nothing_of_that_name")
    monkeypatch.syspath_prepend(tmp_path)
    yield "some_outside"
    for kind in [k for name, k in registry.ESTIMATORS.items() if name == "known"]:
        unregister(kind)


def test_a_class_is_found_by_its_path(outside):
    found = dbsurf.get("some_outside:Mine", 3)
    assert type(found).__name__ == "Mine"
    assert found.n == 3
    assert dbsurf.get("some_outside:Mine(5)").n == 5
    rows = dbsurf.compare(
        lambda x: x.sum(-1), HALF, 4, draws=10, estimators=["some_outside:Mine(4)", "LOORF(4)"]
    ).rows
    assert [row.estimator for row in rows if "Mine" in row.estimator]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere.at_all:Mine", "with a module that can be imported, got 'nowhere.at_all:Mine'"),
        ("broken_outside:Mine", "No module named 'nothing_of_that_name'"),
        ("some_outside:Other", "subclass of dbsurf.Estimator, got .*which is not there"),
        ("some_outside:number", "subclass of dbsurf.Estimator, got .*which is 3"),
        (":Mine", "name must be package.module:Class"),
    ],
)
def test_a_path_that_leads_nowhere(outside, path, message):
    with pytest.raises(ValueError, match=message):
        dbsurf.get(path, 4)


def test_entry_points_of_other_distributions(outside, tmp_path):
    """What an installed distribution declares is there by name; a broken one is a warning."""
    about = tmp_path / "some_outside-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: some_outside\nVersion: 1.0\n")
    lines = "[dbsurf.estimators]\nknown = some_outside:Known\nbad = broken_outside:Mine\n"
    (about / "entry_points.txt").write_text(lines)
    registry.load_entry_points.cache_clear()
    try:
        with pytest.warns(RuntimeWarning, match="bad = broken_outside:Mine cannot be loaded"):
            assert "known" in dbsurf.available()
        assert dbsurf.get("Known", 4).n == 4
    finally:
        registry.load_entry_points.cache_clear()


def test_no_two_public_classes_share_a_name():
    modules = (dbsurf, dbsurf.estimators, dbsurf.samplers, dbsurf.distributions, dbsurf.sequences)
    owner: dict[str, object] = {}
    for module in modules:
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            assert owner.setdefault(name, value) is value, f"{name} is two things"


def test_names_of_version_0_1_say_the_new_one():
    with pytest.raises(ValueError, match="rate of RODEO is now called lr"):
        dbsurf.RODEO(2, rate=1e-3)
    with pytest.raises(ValueError, match="surrogate of RELAX is now called network"):
        dbsurf.RELAX(2, surrogate=torch.nn.Identity())
    with pytest.raises(ValueError, match=r"options of QuadraticCV must be keywords.*got 2 pos"):
        dbsurf.QuadraticCV(2, "values")
    with pytest.raises(AttributeError, match="sequences.IID is now called IIDGroup"):
        dbsurf.sequences.IID  # noqa: B018
    with pytest.raises(AttributeError, match="register is now called register_distribution"):
        dbsurf.distributions.register  # noqa: B018


def test_a_drop_in_keeps_the_marginals():
    """`dbsurf.sample` draws as the distribution does, one sample at a time."""
    p = torch.tensor([0.1, 0.5, 0.93], dtype=torch.float64)
    samples = dbsurf.sample(Bernoulli(p.expand(200_000, 3)), 3)
    error = (samples.mean(1) - p).abs().max()
    assert error < 5 * (0.25 / 200_000) ** 0.5
