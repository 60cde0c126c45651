"""One table of estimators: names, colours and dashes."""

from __future__ import annotations

import colorsys

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
