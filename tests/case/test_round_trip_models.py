"""Graphs of small transformers, forward and backward, static and dynamic, come back node for node."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from capture_helpers import Taken, take

from torchsleuth.case.ir import operators
from torchsleuth.case.model import Level

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.slow

SMALL = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 32}
TOKENS = torch.randint(0, 50, (2, 6))


def bert() -> tuple[Any, tuple[Any, ...]]:
    return transformers.BertModel(transformers.BertConfig(vocab_size=50, **SMALL)), (TOKENS,)


def gpt2() -> tuple[Any, tuple[Any, ...]]:
    config = transformers.GPT2Config(vocab_size=50, n_embd=16, n_head=2, n_layer=1, n_positions=32, use_cache=False)
    return transformers.GPT2Model(config), (TOKENS,)


def t5() -> tuple[Any, tuple[Any, ...]]:
    config = transformers.T5Config(
        vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, use_cache=False
    )
    return transformers.T5Model(config), (TOKENS, None, TOKENS)


def vit() -> tuple[Any, tuple[Any, ...]]:
    return transformers.ViTModel(transformers.ViTConfig(image_size=16, patch_size=8, **SMALL)), (
        torch.randn(1, 3, 16, 16),
    )


def whisper() -> tuple[Any, tuple[Any, ...]]:
    config = transformers.WhisperConfig(
        vocab_size=50, num_mel_bins=8, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_source_positions=12,
        max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        use_cache=False,
    )  # fmt: skip
    model = transformers.WhisperModel(config)
    return functools.partial(model, decoder_input_ids=TOKENS), (torch.randn(2, 8, 24),)


def mamba() -> tuple[Any, tuple[Any, ...]]:
    config = transformers.MambaConfig(vocab_size=50, hidden_size=16, state_size=4, num_hidden_layers=1, use_cache=False)
    return transformers.MambaModel(config), (TOKENS,)


def mixtral() -> tuple[Any, tuple[Any, ...]]:
    config = transformers.MixtralConfig(
        vocab_size=50, num_key_value_heads=1, num_local_experts=4, num_experts_per_tok=2, use_cache=False, **SMALL
    )
    return transformers.MixtralModel(config), (TOKENS,)


MODELS = {m.__name__: m for m in (bert, gpt2, t5, vit, whisper, mamba, mixtral)}


def taken(name: str, *, dynamic: bool, compare: bool = False) -> Taken:
    torch.manual_seed(0)
    model, args = MODELS[name]()

    def run(*given: Any) -> Any:
        out = model(*given)
        return out.last_hidden_state

    return take(run, *args, dynamic=dynamic, compare=compare)


@pytest.mark.parametrize(
    ("name", "dynamic"),
    [(n, False) for n in ("bert", "vit", "t5", "mixtral")] + [(n, True) for n in ("bert", "gpt2", "whisper", "mamba")],
)
def test_every_graph_comes_back(name: str, dynamic: bool) -> None:
    seen = taken(name, dynamic=dynamic, compare=name == "mixtral")
    assert seen.unknown == set()
    assert sum(map(operators, seen.level(Level.DYNAMO))) > 10
    assert len(seen.level(Level.ATEN)) >= 2, "no backward was compiled"
    placed = [n for g in seen.level(Level.DYNAMO) for n in g.nodes if n.is_call]
    assert sum(n.source is not None for n in placed) > 0.8 * len(placed)
    if dynamic:
        sizes = [s for g in seen.level(Level.ATEN) for n in g.nodes if n.value for s in n.value.shape]
        assert any(isinstance(s, str) for s in sizes)
    assert (len(seen.runs) >= 2) is (name == "mixtral")
    for before, after in seen.runs:
        assert_same_bits(before, after)


def assert_same_bits(before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
    """What the original graph gave, and what the rebuilt one gave for the same inputs."""
    for a, b in zip(before, after, strict=True):
        if isinstance(a, torch.Tensor):
            assert a.stride() == b.stride()
            assert torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))
        else:
            assert a == b
