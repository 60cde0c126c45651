"""Completions of tiny, randomly initialised models of transformers: no download."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dbsurf import sequences
from dbsurf.sequences import ArithmeticGroup, IIDGroup, StochasticBeam, SystematicGroup

transformers = pytest.importorskip("transformers", reason="needs dbsurf[integrations]")

from dbsurf.integrations.language import completion_log_probs, generate  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

VOCABULARY, END = 7, 1
PROMPTS = torch.tensor([[0, 0, 3], [4, 5, 2]])
PADDING = torch.tensor([[0, 0, 1], [1, 1, 1]])


def gpt2() -> torch.nn.Module:
    torch.manual_seed(3)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=16, n_layer=2, n_head=2, n_positions=32
    )
    model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():
        model.transformer.wte.weight.mul_(30)  # laws that are not nearly uniform
    return model


def llama() -> torch.nn.Module:
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        model.lm_head.weight.mul_(30)
    return model


MODELS = {"gpt2": gpt2, "llama": llama}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def group(name: str, n: int = 6) -> sequences.Codes | StochasticBeam:
    kinds = {"iid": IIDGroup, "systematic": SystematicGroup, "arithmetic": ArithmeticGroup}
    if name == "beam":
        return StochasticBeam(n, 2, generator=seeded())
    return kinds[name](n, 2, generator=seeded())


@pytest.mark.parametrize("kind", ["iid", "systematic", "arithmetic", "beam"])
@pytest.mark.parametrize("name", MODELS)
def test_log_probs_are_those_of_a_pass_without_cache(name, kind):
    """Cache, its order, left padding and ragged ends: one forward pass sees the same numbers."""
    model = MODELS[name]().train()
    options = {"temperature": 1.7, "top_k": 5, "top_p": 0.9} if kind != "beam" else {}
    found = generate(
        model,
        PROMPTS,
        group(kind),
        attention_mask=PADDING,
        max_new_tokens=6,
        eos_token_id=END,
        pad_token_id=0,
        **options,
    )
    again = completion_log_probs(model, found)
    assert model.training  # and yet without dropout
    assert again.requires_grad
    torch.testing.assert_close(again, found.log_probs, rtol=1e-4, atol=1e-4)
    lengths = found.mask.sum(-1)
    assert lengths.min() < lengths.max()  # ragged
    for ids, mask in zip(found.ids.flatten(0, 1), found.mask.flatten(0, 1), strict=True):
        inside = ids[mask].tolist()
        assert END not in inside[:-1]
        assert inside[-1] == END or len(inside) == found.ids.shape[-1]
        assert (ids[~mask] == 0).all()


def test_padding_changes_nothing():
    model = gpt2()
    short = generate(
        model,
        PROMPTS[:1, 2:],
        IIDGroup(3, 1, generator=seeded()),
        max_new_tokens=4,
        eos_token_id=END,
    )
    padded = generate(
        model,
        PROMPTS[:1],
        IIDGroup(3, 1, generator=seeded()),
        attention_mask=PADDING[:1],
        max_new_tokens=4,
        eos_token_id=END,
    )
    assert torch.equal(short.ids, padded.ids)
    torch.testing.assert_close(short.log_probs, padded.log_probs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [{"temperature": 2.0}, {"top_k": 3}, {"top_p": 0.7}, {"temperature": 0.5, "top_k": 4}],
)
def test_the_group_is_drawn_from_the_processed_law(options):
    """A systematic group of n has each token floor(n p) or ceil(n p) times: an exact test."""
    model, n = gpt2().eval(), 500
    found = generate(
        model, PROMPTS, SystematicGroup(n, 2, generator=seeded()), max_new_tokens=1, **options
    )
    scores = model(input_ids=PROMPTS).logits[:, -1].detach() / options.get("temperature", 1.0)
    if "top_k" in options:
        least = scores.topk(options["top_k"]).values[:, -1:]
        scores = scores.masked_fill(scores < least, -torch.inf)
    probs = scores.softmax(-1)
    if "top_p" in options:
        order = probs.sort(-1, descending=True)
        before = order.values.cumsum(-1) - order.values
        kept = torch.zeros_like(probs).scatter(-1, order.indices, (before < 0.7).float())
        probs = probs * kept / (probs * kept).sum(-1, keepdim=True)
    counts = torch.stack([(found.ids[..., 0] == token).sum(0) for token in range(VOCABULARY)], -1)
    assert ((counts - n * probs).abs() <= 1 + 1e-3).all()
    if len(options) > 1 or "temperature" not in options:
        assert (probs == 0).any()
    assert (found.weights == 1 / n).all()


def reward(ids: Tensor, mask: Tensor) -> Tensor:
    return ((ids == 4) & mask).sum(-1).float()


def test_weights_of_a_beam_make_the_mean_unbiased():
    """With as many sequences as exist, the weighted sum is the exact expectation."""
    model = gpt2()
    beam = StochasticBeam(VOCABULARY**2, 2, generator=seeded())
    every = generate(model, PROMPTS, beam, max_new_tokens=2)
    torch.testing.assert_close(every.weights.sum(0), torch.ones(2), rtol=1e-4, atol=1e-4)
    exact = (every.weights * reward(every.ids, every.mask)).sum(0)
    estimates = []
    for seed in range(300):
        few = generate(
            model, PROMPTS, StochasticBeam(4, 2, generator=seeded(seed)), max_new_tokens=2
        )
        estimates.append((few.weights * reward(few.ids, few.mask)).sum(0))
    table = torch.stack(estimates)
    z = (table.mean(0) - exact) / (table.std(0) / 300**0.5)
    assert (z.abs() < 4).all()


def test_one_step_of_training_with_every_part():
    model = llama()
    codes = SystematicGroup(4, 2, groups=2, generator=seeded())
    found = generate(
        model, PROMPTS, codes, attention_mask=PADDING, max_new_tokens=5, eos_token_id=END
    )
    rewards = reward(found.ids, found.mask)
    baseline = sequences.prefix_mean(rewards, codes.peers, found.ids)
    log_probs = completion_log_probs(model, found)
    loss = -sequences.sequence_loss(log_probs, rewards, mask=found.mask, baseline=baseline).mean()
    loss.backward()
    assert all(p.grad is not None for p in model.parameters())
    # The same rows flat, as trainers have them.
    flat = sequences.advantages(
        found.rows(rewards), torch.arange(2).repeat_interleave(4), found.rows(found.mask)
    )
    assert flat.shape == (8, found.ids.shape[-1])


def test_processors_come_first_and_see_the_tokens():
    model, seen = gpt2(), []

    def no_four(ids: Tensor, logits: Tensor) -> Tensor:
        seen.append(ids.shape)
        return logits.index_fill(-1, torch.tensor([4]), -torch.inf)

    found = generate(
        model, PROMPTS, IIDGroup(3, 2), max_new_tokens=3, processors=[no_four], temperature=5.0
    )
    assert not (found.ids == 4).any()
    assert seen[:3] == [(6, 3), (6, 4), (6, 5)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_ids": [[1, 2]]}, "input_ids must be int64"),
        ({"group": IIDGroup(3, 5)}, "group must have one batch of 2 prompts"),
        ({"group": "iid"}, "group must be one of dbsurf.sequences"),
        ({"attention_mask": torch.tensor([[1, 1, 0], [1, 1, 1]])}, "end with 1 in every row"),
        ({"temperature": 0.0}, "temperature must be a number > 0"),
        ({"top_p": 1.5}, "top_p must be a number"),
        ({"top_k": 0}, "top_k must be an integer >= 1"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
    ],
)
def test_wrong_input(options, message):
    given = {"input_ids": PROMPTS, "group": IIDGroup(3, 2), "max_new_tokens": 2} | options
    with pytest.raises(ValueError, match=message):
        generate(gpt2(), given.pop("input_ids"), given.pop("group"), **given)


def test_a_group_is_used_once():
    used = IIDGroup(3, 2)
    generate(gpt2(), PROMPTS, used, max_new_tokens=1)
    with pytest.raises(ValueError, match="group must be new"):
        generate(gpt2(), PROMPTS, used, max_new_tokens=1)
