"""Tiny models of transformers with random weights, for the other benchmarks: each with inputs and a scalar loss.

Two layers, hidden size 32, a batch of two short sequences: what is measured is how torch.compile is watched and its
graphs are carried, and a large model only has more of the same layers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

BATCH, LENGTH, HIDDEN, WORDS = 2, 12, 32, 64


@dataclass(frozen=True)
class Tiny:
    """One model by name: its class, the overrides of its configuration, and how its inputs are made."""

    name: str
    kind: str  # encoder, decoder, encoder-decoder, vision, vision-text, audio, state-space, moe
    model: str
    config: str
    settings: Mapping[str, Any]
    inputs: Callable[[], dict[str, Any]]

    def build(self) -> tuple[Any, dict[str, Any]]:
        """The model in eval mode with seeded weights, and the inputs of its forward."""
        import torch
        import transformers

        torch.manual_seed(0)
        config = getattr(transformers, self.config)(**self.settings)
        model = getattr(transformers, self.model)(config).eval()
        torch.manual_seed(1)
        return model, self.inputs()


def loss(output: Any) -> Any:
    """A scalar that every floating output of the model has a part in."""
    return sum(t.float().square().mean() for t in tensors(output) if t.is_floating_point())


def tensors(output: Any) -> list[Any]:
    """The tensors of a model's output, in order, whatever holds them."""
    import torch

    if isinstance(output, torch.Tensor):
        return [output]
    if isinstance(output, Mapping):
        return [t for v in output.values() for t in tensors(v)]
    if isinstance(output, (list, tuple)):
        return [t for v in output for t in tensors(v)]
    return []


def words(*names: str, mask: bool = True) -> Callable[[], dict[str, Any]]:
    def make() -> dict[str, Any]:
        import torch

        found = {name: torch.randint(3, WORDS, (BATCH, LENGTH)) for name in names or ("input_ids",)}
        if mask:
            attention = torch.ones(BATCH, LENGTH, dtype=torch.int64)
            attention[1, -3:] = 0
            found["attention_mask"] = attention
        return found

    return make


def floats(name: str, *shape: int) -> Callable[[], dict[str, Any]]:
    def make() -> dict[str, Any]:
        import torch

        return {name: torch.randn(BATCH, *shape)}

    return make


def both(*makers: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    return lambda: {k: v for make in makers for k, v in make().items()}


_ENCODER = {
    "vocab_size": WORDS,
    "hidden_size": HIDDEN,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
}
_DECODER = {
    "vocab_size": WORDS,
    "hidden_size": HIDDEN,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "use_cache": False,
}
_GROUPED = {**_DECODER, "num_key_value_heads": 1}
_SEQ2SEQ = {
    "vocab_size": WORDS,
    "d_model": HIDDEN,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 40,
    "use_cache": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": 2,
}
_IMAGE = {
    "image_size": 16,
    "patch_size": 4,
    "num_channels": 3,
    "hidden_size": HIDDEN,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
}
_WAVES = {
    "vocab_size": WORDS,
    "hidden_size": HIDDEN,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "conv_dim": (16, 16),
    "conv_stride": (4, 4),
    "conv_kernel": (8, 4),
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
    "num_feat_extract_layers": 2,
    "mask_time_prob": 0.0,
    "layerdrop": 0.0,
}
_IMAGES = floats("pixel_values", 3, 16, 16)
_PAIR = both(words(), words("decoder_input_ids", mask=False))

ZOO = {
    tiny.name: tiny
    for tiny in (
        Tiny("bert", "encoder", "BertForMaskedLM", "BertConfig", _ENCODER, words()),
        Tiny("roberta", "encoder", "RobertaForMaskedLM", "RobertaConfig", _ENCODER, words()),
        Tiny(
            "distilbert",
            "encoder",
            "DistilBertForMaskedLM",
            "DistilBertConfig",
            {
                "vocab_size": WORDS,
                "dim": HIDDEN,
                "n_layers": 2,
                "n_heads": 2,
                "hidden_dim": 48,
                "max_position_embeddings": 40,
            },
            words(),
        ),
        Tiny("albert", "encoder", "AlbertForMaskedLM", "AlbertConfig", {**_ENCODER, "embedding_size": 16}, words()),
        Tiny(
            "electra", "encoder", "ElectraForPreTraining", "ElectraConfig", {**_ENCODER, "embedding_size": 16}, words()
        ),
        Tiny(
            "deberta",
            "encoder",
            "DebertaV2ForMaskedLM",
            "DebertaV2Config",
            {**_ENCODER, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8},
            words(),
        ),
        Tiny(
            "xlnet",
            "encoder",
            "XLNetLMHeadModel",
            "XLNetConfig",
            {
                "vocab_size": WORDS,
                "d_model": HIDDEN,
                "n_layer": 2,
                "n_head": 2,
                "d_inner": 48,
                "pad_token_id": 0,
                "bos_token_id": 1,
                "eos_token_id": 2,
            },
            words(),
        ),
        Tiny(
            "fnet",
            "encoder",
            "FNetForMaskedLM",
            "FNetConfig",
            {name: value for name, value in _ENCODER.items() if name != "num_attention_heads"},
            words(mask=False),
        ),
        Tiny(
            "gpt2",
            "decoder",
            "GPT2LMHeadModel",
            "GPT2Config",
            {
                "vocab_size": WORDS,
                "n_embd": HIDDEN,
                "n_layer": 2,
                "n_head": 2,
                "n_positions": 40,
                "use_cache": False,
                "bos_token_id": 1,
                "eos_token_id": 2,
            },
            words(),
        ),
        Tiny("gpt_neox", "decoder", "GPTNeoXForCausalLM", "GPTNeoXConfig", _DECODER, words()),
        Tiny("llama", "decoder", "LlamaForCausalLM", "LlamaConfig", _GROUPED, words()),
        Tiny("mistral", "decoder", "MistralForCausalLM", "MistralConfig", {**_GROUPED, "sliding_window": 8}, words()),
        Tiny("qwen2", "decoder", "Qwen2ForCausalLM", "Qwen2Config", _GROUPED, words()),
        Tiny("gemma", "decoder", "GemmaForCausalLM", "GemmaConfig", {**_GROUPED, "head_dim": 16}, words()),
        Tiny(
            "opt",
            "decoder",
            "OPTForCausalLM",
            "OPTConfig",
            {
                "vocab_size": WORDS,
                "hidden_size": HIDDEN,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "ffn_dim": 48,
                "max_position_embeddings": 40,
                "word_embed_proj_dim": HIDDEN,
                "use_cache": False,
                "pad_token_id": 0,
                "bos_token_id": 1,
                "eos_token_id": 2,
            },
            words(),
        ),
        Tiny(
            "bloom",
            "decoder",
            "BloomForCausalLM",
            "BloomConfig",
            {
                "vocab_size": WORDS,
                "hidden_size": HIDDEN,
                "n_layer": 2,
                "n_head": 2,
                "use_cache": False,
                "pad_token_id": 0,
                "bos_token_id": 1,
                "eos_token_id": 2,
            },
            words(),
        ),
        Tiny("phi", "decoder", "PhiForCausalLM", "PhiConfig", _DECODER, words()),
        Tiny(
            "falcon",
            "decoder",
            "FalconForCausalLM",
            "FalconConfig",
            {
                "vocab_size": WORDS,
                "hidden_size": HIDDEN,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "alibi": True,
                "use_cache": False,
                "pad_token_id": 0,
                "bos_token_id": 1,
                "eos_token_id": 2,
            },
            words(),
        ),
        Tiny(
            "gemma2",
            "decoder",
            "Gemma2ForCausalLM",
            "Gemma2Config",
            {**_GROUPED, "head_dim": 16, "sliding_window": 8},
            words(),
        ),
        Tiny(
            "t5",
            "encoder-decoder",
            "T5ForConditionalGeneration",
            "T5Config",
            {
                "vocab_size": WORDS,
                "d_model": HIDDEN,
                "d_kv": 16,
                "d_ff": 48,
                "num_layers": 2,
                "num_heads": 2,
                "use_cache": False,
                "pad_token_id": 0,
                "eos_token_id": 2,
                "decoder_start_token_id": 0,
            },
            _PAIR,
        ),
        Tiny("bart", "encoder-decoder", "BartForConditionalGeneration", "BartConfig", _SEQ2SEQ, _PAIR),
        Tiny("pegasus", "encoder-decoder", "PegasusForConditionalGeneration", "PegasusConfig", _SEQ2SEQ, _PAIR),
        Tiny("vit", "vision", "ViTForImageClassification", "ViTConfig", {**_IMAGE, "num_labels": 5}, _IMAGES),
        Tiny("beit", "vision", "BeitForImageClassification", "BeitConfig", {**_IMAGE, "num_labels": 5}, _IMAGES),
        Tiny(
            "swin",
            "vision",
            "SwinForImageClassification",
            "SwinConfig",
            {
                "image_size": 16,
                "patch_size": 2,
                "num_channels": 3,
                "embed_dim": 16,
                "depths": [1, 1],
                "num_heads": [2, 2],
                "window_size": 4,
                "num_labels": 5,
            },
            _IMAGES,
        ),
        Tiny(
            "convnext",
            "vision",
            "ConvNextForImageClassification",
            "ConvNextConfig",
            {
                "image_size": 16,
                "num_channels": 3,
                "patch_size": 2,
                "num_stages": 2,
                "hidden_sizes": [16, 32],
                "depths": [1, 1],
                "num_labels": 5,
            },
            _IMAGES,
        ),
        Tiny(
            "segformer",
            "vision",
            "SegformerForSemanticSegmentation",
            "SegformerConfig",
            {
                "num_encoder_blocks": 2,
                "depths": [1, 1],
                "sr_ratios": [2, 1],
                "hidden_sizes": [16, 32],
                "patch_sizes": [3, 3],
                "strides": [2, 2],
                "num_attention_heads": [1, 2],
                "mlp_ratios": [2, 2],
                "decoder_hidden_size": 16,
                "num_labels": 5,
            },
            _IMAGES,
        ),
        Tiny(
            "resnet",
            "vision",
            "ResNetForImageClassification",
            "ResNetConfig",
            {"embedding_size": 8, "hidden_sizes": [16, 32], "depths": [1, 1], "num_labels": 5},
            _IMAGES,
        ),
        Tiny(
            "clip",
            "vision-text",
            "CLIPModel",
            "CLIPConfig",
            {
                "text_config": {**_ENCODER, "bos_token_id": 1, "eos_token_id": 2, "projection_dim": 16},
                "vision_config": {**_IMAGE, "projection_dim": 16},
                "projection_dim": 16,
            },
            both(words(), _IMAGES),
        ),
        Tiny(
            "whisper",
            "audio",
            "WhisperForConditionalGeneration",
            "WhisperConfig",
            {**_SEQ2SEQ, "num_mel_bins": 16, "max_source_positions": 20, "max_target_positions": 20},
            both(floats("input_features", 16, 40), words("decoder_input_ids", mask=False)),
        ),
        Tiny("wav2vec2", "audio", "Wav2Vec2ForCTC", "Wav2Vec2Config", _WAVES, floats("input_values", 400)),
        Tiny("hubert", "audio", "HubertForCTC", "HubertConfig", _WAVES, floats("input_values", 400)),
        Tiny(
            "mamba",
            "state-space",
            "MambaForCausalLM",
            "MambaConfig",
            {
                "vocab_size": WORDS,
                "hidden_size": HIDDEN,
                "num_hidden_layers": 2,
                "state_size": 8,
                "use_cache": False,
                "pad_token_id": 0,
                "bos_token_id": 1,
                "eos_token_id": 2,
            },
            words(mask=False),
        ),
        Tiny(
            "mixtral",
            "moe",
            "MixtralForCausalLM",
            "MixtralConfig",
            {**_GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2},
            words(),
        ),
        Tiny(
            "qwen3_moe",
            "moe",
            "Qwen3MoeForCausalLM",
            "Qwen3MoeConfig",
            {**_GROUPED, "head_dim": 16, "moe_intermediate_size": 24, "num_experts": 4, "num_experts_per_tok": 2},
            words(),
        ),
    )
}


def chosen(names: Iterable[str]) -> list[Tiny]:
    """The named models, or all; an unknown name ends the command."""
    wanted = list(names) or list(ZOO)
    unknown = [name for name in wanted if name not in ZOO]
    if unknown:
        raise SystemExit(f"no such model: {', '.join(unknown)}; there are {', '.join(ZOO)}")
    return [ZOO[name] for name in wanted]
