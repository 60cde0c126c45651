"""One table of estimators: names, colours and dashes."""

from __future__ import annotations

import colorsys
import math

import pytest

import dbsurf
from dbsurf_paper import labels
from dbsurf_paper.experiments.nas.supernet.methods import METHODS
from dbsurf_paper.labels import VARIANTS, estimator_name, label, looks, variants


def test_no_two_estimators_share_a_colour():
    colours = [variant.colour for variant in VARIANTS.values()]
    assert len({colour.lower() for colour in [*colours, *labels.SPARE]}) == len(colours) + len(
        labels.SPARE
    )


def rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))


def test_colours_are_far_enough_apart_to_be_told():
    """In lightness, hue and chroma together; lines of similar colour differ in their dash."""
    chosen = list(VARIANTS.values())
    for place, one in enumerate(chosen):
        for other in chosen[:place]:
            left, right = (
                colorsys.rgb_to_yiq(*rgb(one.colour)),
                colorsys.rgb_to_yiq(*rgb(other.colour)),
            )
            apart = sum((a - b) ** 2 for a, b in zip(left, right, strict=True)) ** 0.5
            assert apart > 0.1 or one.dash != other.dash, (one.label, other.label)


#: What is left of red, green and blue light without the green or the red cones (Machado 2009).
COLOUR_BLIND = (
    ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
)


def seen(colour: str, matrix: tuple[tuple[float, ...], ...]) -> tuple[float, ...]:
    """CIE L*a*b* of a colour as a colour-blind reader sees it."""
    light = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in rgb(colour)
    ]
    r, g, b = (sum(w * part for w, part in zip(row, light, strict=True)) for row in matrix)
    x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047
    y = 0.2126 * r + 0.7152 * g + 0.0722 * b
    z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883
    x, y, z = (max(t, 0) ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("matrix", COLOUR_BLIND, ids=["deuteranopia", "protanopia"])
def test_colour_blind_readers_can_tell_lines_of_one_dash(matrix):
    """A difference of 2.3 is just noticeable; twice that is asked for."""
    chosen = list(VARIANTS.values())
    for place, one in enumerate(chosen):
        for other in chosen[:place]:
            apart = math.dist(seen(one.colour, matrix), seen(other.colour, matrix))
            assert apart > 4.6 or one.dash != other.dash, (one.label, other.label)


def test_every_variant_of_an_estimator_can_be_built():
    for variant in VARIANTS.values():
        if variant.estimator in dbsurf.available():
            assert variant.build(4).n in (4, 0)
    named = {variant.estimator for variant in VARIANTS.values()}
    others = {"evolution", "random", *METHODS} - {"sampled"}  # of architectures
    assert named - {*dbsurf.available()} == others
    assert {*dbsurf.available()} <= named  # every estimator of the library has a row


def test_names_and_labels():
    (variant,) = variants("dbsurf debias=true")
    assert variant.label == label("dbsurf", {"debias": True}) == "dbsurf debias=true"
    assert estimator_name("dbsurf debias=true") == "DBsurf debiased"
    assert estimator_name("exact") == "exact"
    assert estimator_name("cooking slowly=true") == "cooking slowly=true"
    assert labels.file_name("dbsurf", ("alpha=0.5",)) == "dbsurf-alpha-0.5"


@pytest.mark.parametrize("count", [3, 20])
def test_unknown_series_look_different(count):
    series = ["loorf", *(f"dbsurf alpha={i}" for i in range(count))]
    assert len(set(looks(series).values())) == count + 1


def test_a_few_unknown_variants_have_the_colour_of_their_estimator():
    found = looks(
        ["spotcheck checks=6", "reinmax", "spotcheck", "spotcheck n=3", "median:Baseline"]
    )
    colour, dash = VARIANTS["spotcheck"].colour, VARIANTS["spotcheck"].dash
    own = {found[one] for one in ("spotcheck", "spotcheck n=3", "spotcheck checks=6")}
    assert len(own) == 3
    assert {one for one, _ in own} == {colour}
    assert found["spotcheck"] == (colour, dash)
    assert looks(["gumbelsoftmax temperature=0.25"])["gumbelsoftmax temperature=0.25"] == (
        VARIANTS["gumbelsoftmax"].colour,
        VARIANTS["gumbelsoftmax"].dash,
    )
    assert found["median:Baseline"][0] in labels.SPARE
