"""The parts of a step: images, schedule, pruning, and what is updated when."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from torch import Tensor

import dbsurf
from dbsurf_paper.experiments.nas.supernet.architecture import OPEN, Architecture
from dbsurf_paper.experiments.nas.supernet.images import Batches, Standard, as_tensor, augment
from dbsurf_paper.experiments.nas.supernet.methods.base import Member, Temperature
from dbsurf_paper.experiments.nas.supernet.methods.few_shot import FewShot
from dbsurf_paper.experiments.nas.supernet.methods.paths import Sampled, Uniform
from dbsurf_paper.experiments.nas.supernet.methods.relaxed import Snas
from dbsurf_paper.experiments.nas.supernet.network import Supernet
from dbsurf_paper.experiments.nas.supernet.training import Schedule, Trainer
from dbsurf_paper.experiments.nas.supernet.workers import Workers

CPU = torch.device("cpu")


def trainer(*, rate: float = 0.1, warmup: int = 2, seed: int = 0, **options) -> Trainer:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(256, (40, 1, 8, 8), generator=generator, dtype=torch.uint8)
    labels = torch.arange(40) % 4
    given = {"estimator": dbsurf.DBsurf(5), "batching": "together", "threshold": 0.8} | options
    method = given.get("method") or Sampled(given["estimator"], given["batching"])
    network = Supernet(4, channels=2, cells=1, inputs=1)
    return Trainer(
        method,
        [
            Member(copy.deepcopy(network), method.architecture(given["threshold"]), rate)
            for _ in range(method.members)
        ],
        Batches(images, labels, 8, generator, padding=1),
        None,
        Standard(images),
        Schedule(0.5, warmup, 100, 100),
        Workers(CPU),
    )


# --- schedule ---------------------------------------------------------------------------------


def test_warm_up_is_a_factor_on_the_base_rate_and_the_cosine_is_cut():
    """Appendix C.2 with 390 batches an epoch: 5 epochs of warm-up, 45 of 235 of a cosine."""
    schedule = Schedule(base=0.5, warmup=5 * 390, cosine=235 * 390)
    assert schedule.rate(0) == 0.5 * 2e-4
    rises = [schedule.rate(step) for step in range(5 * 390 + 1)]
    np.testing.assert_allclose(np.diff(rises), np.diff(rises)[0])
    assert schedule.rate(5 * 390) == 0.5
    at_the_end = schedule.rate(50 * 390)
    assert at_the_end == pytest.approx(0.25 * (1 + math.cos(math.pi * 45 / 235)))
    assert at_the_end > 0.45
    assert schedule.rate(240 * 390) == schedule.rate(500 * 390) == 0
    assert Schedule(base=0.5, warmup=0, cosine=10).rate(0) == 0.5


# --- images -----------------------------------------------------------------------------------


def test_every_image_is_moved_and_flipped_on_its_own():
    images = torch.randint(256, (200, 3, 6, 5), dtype=torch.uint8)
    found = augment(images, 2, torch.Generator().manual_seed(0))
    assert found.shape == images.shape
    padded = torch.nn.functional.pad(images, (2, 2, 2, 2))
    seen = set()
    for image, wide in zip(found, padded, strict=True):
        options = {
            (row, column, flip): part.flip(-1) if flip else part
            for row in range(5)
            for column in range(5)
            for flip in (False, True)
            for part in [wide[:, row : row + 6, column : column + 5]]
        }
        seen |= {key for key, part in options.items() if torch.equal(part, image)}
    assert len(seen) > 45  # of 50
    again = augment(images, 2, torch.Generator().manual_seed(0))
    assert torch.equal(found, again)
    plain = augment(images, 0, torch.Generator().manual_seed(0))
    flipped = (plain == images.flip(-1)).all(-1).all(-1).all(-1)
    kept = (plain == images).all(-1).all(-1).all(-1)
    assert (kept | flipped).all()
    assert 60 < int(flipped.sum()) < 140


def test_sizes_and_colours():
    grey = np.arange(2 * 4 * 4, dtype=np.uint8).reshape(2, 4, 4)
    assert as_tensor(grey).shape == (2, 1, 4, 4)
    assert torch.equal(as_tensor(grey, 2)[0, 0], torch.tensor([[2, 4], [10, 12]]).byte())
    wide = as_tensor(grey, 7)
    assert wide.shape == (2, 1, 7, 7)
    assert torch.equal(wide[:, 0, 1:5, 1:5], torch.from_numpy(grey))
    assert int(wide.sum()) == int(grey.sum())
    colours = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)
    assert torch.equal(as_tensor(colours)[1, 2], torch.from_numpy(colours)[1, :, :, 2])


def test_pixels_have_mean_0_and_spread_1_in_every_colour():
    images = torch.randint(256, (1500, 3, 4, 4), dtype=torch.uint8) // torch.tensor(
        [1, 2, 4], dtype=torch.uint8
    ).view(3, 1, 1)
    scaled = Standard(images)(images)
    assert scaled.mean((0, 2, 3)).abs().max() < 1e-5
    assert (scaled.std((0, 2, 3), correction=0) - 1).abs().max() < 1e-5


def test_an_epoch_has_every_image_once_and_batches_go_on_where_they_stopped():
    images = torch.arange(10, dtype=torch.uint8).view(10, 1, 1, 1).expand(10, 1, 2, 2)

    def batches() -> Batches:
        generator = torch.Generator().manual_seed(1)
        return Batches(images, torch.arange(10), 5, generator, padding=0)

    ours = batches()
    first = [ours.next() for _ in range(2)]
    assert sorted(torch.cat([labels for _, labels in first]).tolist()) == list(range(10))
    assert all((pixels[:, 0, 0, 0] == labels).all() for pixels, labels in first)
    ours.next()
    other = batches()
    other.load_state_dict(ours.state_dict())
    other.generator.set_state(ours.generator.get_state())
    for _ in range(4):
        assert torch.equal(ours.next()[1], other.next()[1])
    with pytest.raises(ValueError, match="batch must lie between 1 and 10 images, got 11"):
        Batches(images, torch.arange(10), 11, torch.Generator())


# --- architecture -----------------------------------------------------------------------------


def test_an_edge_is_fixed_when_its_best_operation_leads_by_the_threshold():
    architecture = Architecture(threshold=0.8)
    shares = torch.tensor([0.89, 0.08, 0.01, 0.01, 0.01])  # leads by 0.81
    with torch.no_grad():
        architecture.logits[1] = shares.log()
        architecture.logits[4] = torch.tensor([0.12, 0.87, 0.004, 0.003, 0.003]).log()  # by 0.75
    assert architecture.prune() == [1]
    assert architecture.fixed.tolist() == [OPEN, 0, OPEN, OPEN, OPEN, OPEN]
    assert architecture.open_edges().tolist() == [0, 2, 3, 4, 5]
    assert architecture.distribution().event_shape == (5,)
    assert architecture.entropy()[1] == 0
    assert architecture.entropy()[0] == pytest.approx(math.log(5))
    assert architecture.likeliest()[1] == 0
    paths = architecture.whole_cells(torch.full((3, 5), 4))
    assert paths.tolist() == [[4, 0, 4, 4, 4, 4]] * 3
    with torch.no_grad():
        architecture.logits[1] = torch.tensor([0.0, 9, 0, 0, 0])
    assert architecture.prune() == []  # for good
    assert architecture.probabilities()[1].tolist() == [1, 0, 0, 0, 0]
    with pytest.raises(ValueError, match=r"threshold must lie in \(0, 1\], got 0"):
        Architecture(threshold=0)


# --- steps ------------------------------------------------------------------------------------


def weights(of: Trainer) -> list[Tensor]:
    return [value.detach().clone() for value in of.members[0].weights]


def architecture(of: Trainer) -> Architecture:
    return of.members[0].architecture


def test_the_architecture_rests_during_the_warm_up():
    ours = trainer(warmup=3)
    for _ in range(3):
        before = weights(ours)
        ours.step()
        assert any((a != b).any() for a, b in zip(before, weights(ours), strict=True))
        assert (architecture(ours).logits == 0).all()
    ours.step()
    assert (architecture(ours).logits != 0).any()
    assert ours.evaluations == 20
    assert 1 < int(ours.evaluator.sampled.sum()) <= 20


def test_uniform_sampling_never_learns():
    ours = trainer(method=Uniform(5, 10, 0))
    for _ in range(6):
        ours.step()
    assert (architecture(ours).logits == 0).all()
    assert ours.first_bad_step() is None


def test_weights_that_no_path_used_rest_with_their_momentum():
    ours = trainer(warmup=0)
    with torch.no_grad():  # 3x3 convolutions on all edges, nearly surely
        architecture(ours).logits[:, 3] = 60
    architecture(ours).threshold = 1
    before = {name: value.clone() for name, value in ours.members[0].network.named_parameters()}
    for _ in range(3):
        ours.step()
    for name, value in ours.members[0].network.named_parameters():
        assert torch.equal(value, before[name]) == ("nor_conv_1x1" in name)


@pytest.mark.parametrize("batching", ["together", "one-by-one"])
def test_once_all_edges_are_fixed_one_path_is_evaluated(batching):
    ours = trainer(warmup=0, batching=batching)
    architecture(ours).fixed[:] = 3
    before = weights(ours)
    ours.step()
    assert ours.evaluations == 1
    assert any((a != b).any() for a, b in zip(before, weights(ours), strict=True))
    assert (architecture(ours).logits == 0).all()


def test_together_and_one_by_one_train_alike():
    """Up to the first step of Adam, which turns the last digit of a gradient into a whole step."""
    both = [trainer(warmup=3, batching=batching) for batching in ("together", "one-by-one")]
    for ours in both:
        for _ in range(4):
            ours.step()
    for left, right in zip(*map(weights, both), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)
    left, right = (architecture(ours).logits.grad for ours in both)
    torch.testing.assert_close(left, right, rtol=1e-3, atol=1e-6)


def test_a_search_finds_the_operation_that_lowers_the_loss():
    """A fixed loss in place of the network: 3x3 convolutions are better, by ever so little."""
    ours = trainer(warmup=0, rate=0.3, threshold=0.8, estimator=dbsurf.DBsurf(5))
    ours.members[0].network.forward = lambda inputs, path: (
        torch.zeros(  # type: ignore[method-assign]
            len(inputs), 4
        )
        + torch.tensor([0.0, 0.0, 0.0, 1.0]) * sum(operation != 3 for operation in path)
    )
    for _ in range(80):
        ours.step()
    assert architecture(ours).likeliest() == (3,) * 6
    assert not len(architecture(ours).open_edges())


def test_not_finite_any_more():
    ours = trainer()
    ours.step()
    with torch.no_grad():
        architecture(ours).logits[0, 0] = math.nan
    assert ours.first_bad_step() == 1


# --- several supernets ------------------------------------------------------------------------


def test_few_shot_with_one_split_is_two_independent_supernets():
    """Each half sees every second batch; alone it is fed with these and draws the same numbers."""
    temperature = Temperature(1.0, 1.0)
    both = trainer(warmup=2, method=FewShot(Snas(temperature), 4, 2))
    for _ in range(2):
        both.step()
    both.method.prepare(both)  # the split
    groups = [member.architecture.operations()[4] for member in both.members]
    assert sorted(groups[0] + groups[1]) == [0, 1, 2, 3, 4]
    before = [copy.deepcopy(member.state_dict()) for member in both.members]
    assert torch.equal(before[0]["network"]["head.4.weight"], before[1]["network"]["head.4.weight"])
    alone = [trainer(warmup=0, method=Snas(temperature)) for _ in range(2)]
    for ours, state in zip(alone, before, strict=True):
        ours.members[0].load_state_dict(state)
        ours.schedule = both.schedule
    for step in range(2, 8):
        ours = alone[step % 2]
        ours.batches.load_state_dict(both.batches.state_dict())
        ours.batches.generator.set_state(both.batches.generator.get_state())
        ours.steps = step
        both.step()
        ours.step()
    for ours, member in zip(alone, both.members, strict=True):
        left, right = ours.members[0].state_dict(), member.state_dict()
        for part in ("network", "architecture"):
            for name, value in left[part].items():
                assert torch.equal(value, right[part][name]), name
        assert (member.architecture.logits != 0).any()
        probabilities = member.architecture.probabilities()[4]
        ruled_out = [one for one in range(5) if one not in member.architecture.operations()[4]]
        assert (probabilities[ruled_out] == 0).all()
