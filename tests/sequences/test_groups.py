"""Groups of sequences at full size: z-tests, precision, repeatability, shapes."""

from __future__ import annotations

import pytest
import torch

from dbsurf.sequences import AntitheticGroup, ArithmeticGroup, IIDGroup, SystematicGroup
from dbsurf.sequences.inverse import BLOCK, invert
from ztests import assert_mean

KINDS = {
    "iid": IIDGroup,
    "systematic": SystematicGroup,
    "halves": lambda n, *args, **options: SystematicGroup(n, *args, groups=2, **options),
    "antithetic": AntitheticGroup,
    "arithmetic": ArithmeticGroup,
    "arithmetic halves": lambda n, *args, **options: ArithmeticGroup(n, *args, groups=2, **options),
}
every_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


@pytest.mark.parametrize("vocabulary", [1, 2, 5, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_inverse_cdf_finds_every_token_at_its_middle_and_its_ends(vocabulary, dtype):
    logits = 3 * torch.randn(vocabulary, dtype=dtype)
    logits[1::4] = -torch.inf
    weights = torch.softmax(logits, -1).double()
    ends = weights.cumsum(0) / weights.sum()
    starts = ends - weights / weights.sum()
    possible = (weights > (1e-4 if dtype == torch.float32 else 1e-9)).nonzero().flatten()
    for share in (1e-6, 0.5, 1 - 1e-6) if dtype == torch.float64 else (0.01, 0.5, 0.99):
        points = (starts + share * (ends - starts))[possible]
        found = invert(logits.expand(len(points), vocabulary), points)
        assert (found.token == possible).all()
        torch.testing.assert_close(found.below, starts[possible], rtol=0, atol=1e-6)
        torch.testing.assert_close(found.mass, weights[possible], rtol=1e-5, atol=0)


def test_the_ends_of_the_unit_interval_are_possible_tokens():
    logits = torch.tensor([-torch.inf, 0.0, -torch.inf, 1.0, -torch.inf])
    points = torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)
    assert invert(logits.expand(2, 5), points).token.tolist() == [1, 3]


@every_kind
def test_marginals_of_every_sequence(make):
    """Each of four sequences over 20,000 prompts; the failure rate is assert_mean's."""
    rows = torch.randn(1 + 3, 3, generator=torch.Generator().manual_seed(5))
    codes = make(4, 20_000, generator=torch.Generator().manual_seed(6))
    first = codes.step(rows[0].expand(4, 20_000, 3))
    second = codes.step(rows[1:][first])
    strings = torch.nn.functional.one_hot(3 * first + second, 9)
    law = rows[0].softmax(0)[:, None] * rows[1:].softmax(-1)
    for sequence in strings:
        assert_mean(sequence, law.flatten())


@every_kind
def test_marginals_after_200_tokens(make):
    """A long prefix that all may share, then a token of known law.

    Where the likely token has probability 0.97 some sequences are never alone in 200 tokens.
    """
    likely = torch.tensor([0.97, 0.02, 0.01]).log()
    codes = make(4, 2_000, generator=torch.Generator().manual_seed(7))
    count = torch.zeros(4, 2_000)
    for _ in range(200):
        token = codes.step(likely.expand(4, 2_000, 3))
        count += token == 0
    for sequence in count:
        assert_mean(sequence, torch.tensor(200 * 0.97))
    last = torch.nn.functional.one_hot(token, 3)
    for sequence in last:
        assert_mean(sequence, likely.exp())
    stayed = (count == 200).double()
    for sequence in stayed:
        assert_mean(sequence, torch.tensor(0.97).double() ** 200)


@every_kind
def test_a_vocabulary_of_50000_in_float32(make):
    """Sixteen bands of tokens, and rare tokens at the far end of the cdf."""
    vocabulary, batch = 50_000, 200
    logits = 2 * torch.randn(vocabulary, generator=torch.Generator().manual_seed(8))
    logits[-3125:] -= 6  # the last band is rare: a float32 cdf ends in steps of 6e-8
    bands = torch.arange(vocabulary) // 3125
    law = torch.zeros(16).double().index_add_(0, bands, logits.double().softmax(0))
    codes = make(8, batch, generator=torch.Generator().manual_seed(9))
    found = torch.cat([codes.step(logits.expand(8, batch, -1)).T for _ in range(3)])
    shares = torch.nn.functional.one_hot(bands[found], 16).double().mean(1)  # of eight sequences
    assert_mean(shares, law)


def test_precision_at_the_end_of_a_large_cdf():
    """A token of probability 1e-9, the last of 50,000, is found where float32 has no step."""
    logits = torch.zeros(50_000)
    logits[-1] = torch.tensor(1e-9 * 49_999).log()
    points = torch.tensor([1 - 0.5e-9, 1 - 1.5e-9], dtype=torch.float64)
    assert invert(logits.expand(2, -1), points).token.tolist() == [49_999, 49_998]


@every_kind
def test_bit_for_bit_repeatable_by_generator(make):
    logits = torch.randn(6, 4, 3, 5, 11, generator=torch.Generator().manual_seed(1))

    def run(seed):
        codes = make(4, (3, 5), generator=torch.Generator().manual_seed(seed))
        return torch.stack([codes.step(rows) for rows in logits])

    torch.manual_seed(3)
    first = run(2)
    torch.rand(5)  # the global state has no part in it
    assert torch.equal(first, run(2))
    assert not torch.equal(first, run(4))


@every_kind
def test_finished_sequences_are_padded_and_their_logits_are_not_looked_at(make):
    codes = make(4, 3, generator=torch.Generator().manual_seed(2))
    logits = torch.randn(4, 3, 7)
    finished = torch.rand(4, 3) < 0.5
    logits[finished] = torch.nan
    tokens = codes.step(logits, finished=finished, pad=99)
    assert (tokens[finished] == 99).all()
    assert (tokens[~finished] < 7).all()
    assert codes.steps == 1


def test_impossible_tokens_are_never_drawn():
    logits = torch.randn(8, 200, 300)
    logits[torch.rand(logits.shape) < 0.9] = -torch.inf
    logits[..., 17] = 0
    tokens = SystematicGroup(8, 200).step(logits)
    assert torch.isfinite(logits.gather(-1, tokens.unsqueeze(-1))).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits(dtype):
    tokens = SystematicGroup(4, 6).step(torch.randn(4, 6, 1000).to(dtype))
    assert tokens.shape == (4, 6)
    assert tokens.dtype == torch.int64


def test_peers_are_those_that_parted_before():
    codes = SystematicGroup(2, generator=torch.Generator().manual_seed(0))
    same, apart = torch.tensor([30.0, 0.0]), torch.zeros(2)
    first, second, _ = (codes.step(row.expand(2, 2)) for row in (same, apart, apart))
    assert first[0] == first[1]
    assert second[0] != second[1]
    # Token 2 is the first that is drawn after the two differ.
    assert codes.peers.shape == (2, 2, 3)
    assert codes.peers[0, 1].tolist() == [False, False, True]
    assert not codes.peers[0, 0].any()


def test_peers_of_arithmetic_codes_are_all_others_once_the_prefix_is_small():
    codes = ArithmeticGroup(4, groups=2)
    for _ in range(3):
        codes.step(torch.zeros(4, 2))
    other_half = [[False, True, True], [True, True, True], [True, True, True]]
    assert codes.peers[0, 1:].tolist() == other_half


def test_memory_of_a_step_is_small():
    """No tensor of the size of the logits is made: the largest is some rows of probabilities."""
    from torch.profiler import ProfilerActivity, profile

    logits = torch.randn(8, 16, 32_000)
    codes = SystematicGroup(8, 16)
    codes.step(logits)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        codes.step(logits)
    sizes = [event.cpu_memory_usage for event in record.events() or []]
    assert 0 < max(sizes) < logits.numel() * logits.element_size() / 8
