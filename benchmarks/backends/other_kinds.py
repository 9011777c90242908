"""Export networks for ``bench_placement.py`` from PyTorch, with random weights, in a minute.

Usage: ``python benchmarks/backends/other_kinds.py [--models A,B]``, with torch, transformers,
diffusers and onnxscript. Ten are of kinds that ``architectures.py`` lacks: diffusion, detection,
speech, separation of sources, a mixture of experts, recommendation, Fourier transforms and a
recurrent network. The others are smaller than those there. All are in float32 and have fixed sizes
and batch 1, but for the recommendation. The exporter by tracing is used where it can, since what it
writes has constants as nodes. A network lies as ``NAME.onnx`` in the folder ``other-kinds`` of the
cache, where ``bench_placement.py`` finds it; what is there is not made again.

Sources: MLPerf's DLRM, Conv-TasNet (Luo and Mesgarani, 2019) and the Fourier neural operator (Li
and others, 2021) for the shape of the three that no library configures.
"""

import argparse
import itertools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import torch
import transformers as tf
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "numpy_backend"))
from architectures import SEED, cache_folder

Made = tuple[Any, ...]
"""A network, and behind it what it is fed."""


class Part(nn.Module):
    """A network of which some results are handed out."""

    def __init__(self, network: Any, *names: str) -> None:
        super().__init__()
        self.network, self.names = network, names

    def forward(self, *fed: Tensor) -> Any:
        """Return the results of those names."""
        results = self.network(*fed)
        return tuple(getattr(results, name) for name in self.names)


class Recommendation(nn.Module):
    """Embeddings of 26 features, their products, and layers below and above them."""

    def __init__(self, words: int = 100_000, width: int = 64) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(words, width) for _ in range(26))
        self.below = _layers(13, 512, 256, width)
        self.above = _layers(width + 27 * 27, 1024, 512)
        self.last = nn.Linear(512, 1)

    def forward(self, numbers: Tensor, ids: Tensor) -> Tensor:
        """Return the probability of a click."""
        first = self.below(numbers)
        seen = [first, *(table(ids[:, n]) for n, table in enumerate(self.tables))]
        both = torch.stack(seen, 1)
        products = torch.bmm(both, both.transpose(1, 2)).flatten(1)
        return torch.sigmoid(self.last(self.above(torch.cat([first, products], 1))))


class Recurrent(nn.Module):
    """A convolution over time and an LSTM of two layers and directions, as in recognisers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(40, 128, 3, padding=1)
        self.lstm = nn.LSTM(128, 256, 2, bidirectional=True, batch_first=True)
        self.last = nn.Linear(512, 64)

    def forward(self, frames: Tensor) -> Tensor:
        """Return the logarithms of probabilities by frame."""
        seen = torch.relu(self.first(frames)).transpose(1, 2)
        return self.last(self.lstm(seen)[0]).log_softmax(-1)


class Separation(nn.Module):
    """The masks of Conv-TasNet: blocks of dilated convolutions, each with two norms."""

    def __init__(self, width: int = 128, inner: int = 256) -> None:
        super().__init__()
        self.first = nn.Conv1d(inner, width, 1)
        self.blocks = nn.ModuleList(_block(width, inner, 2**n) for n in range(8))

    def forward(self, frames: Tensor) -> Tensor:
        """Return a mask."""
        seen = self.first(frames)
        for block in self.blocks:
            seen = seen + block(seen)
        return torch.sigmoid(seen)


class Experts(nn.Module):
    """A layer of attention and two of eight experts for each token."""

    def __init__(self, width: int = 384, count: int = 8) -> None:
        super().__init__()
        self.gate = nn.Linear(width, count)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 1024), nn.SiLU(), nn.Linear(1024, width))
            for _ in range(count)
        )
        self.attention = nn.MultiheadAttention(width, 6, batch_first=True)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the tokens of the next layer."""
        seen = self.norms[0](tokens)
        tokens = tokens + self.attention(seen, seen, seen, need_weights=False)[0]
        seen = self.norms[1](tokens)
        shares = self.gate(seen).softmax(-1)
        most, places = shares.topk(2, -1)
        shares = torch.zeros_like(shares).scatter(-1, places, most)
        return tokens + sum(
            shares[..., n : n + 1] * expert(seen) for n, expert in enumerate(self.experts)
        )


class FourierOperator(nn.Module):
    """Layers that multiply the lowest frequencies of planes of 64 by 64."""

    def __init__(self, width: int = 32, kept: int = 12) -> None:
        super().__init__()
        self.kept, self.side = kept, 64
        self.first, self.last = nn.Linear(3, width), nn.Linear(width, 1)
        self.beside = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(3))
        shape = (2, width, width, kept, kept)
        self.factors = nn.ParameterList(nn.Parameter(torch.randn(shape) / width) for _ in range(3))

    def forward(self, planes: Tensor) -> Tensor:
        """Return a plane."""
        seen, kept, side = self.first(planes).permute(0, 3, 1, 2), self.kept, self.side
        padding = (0, 0, 0, side // 2 + 1 - kept, 0, side - kept)
        for beside, (real, imaginary) in zip(self.beside, self.factors, strict=True):
            low = torch.view_as_real(torch.fft.rfft2(seen))[:, :, :kept, :kept]
            a, b = low[..., 0], low[..., 1]
            parts = [
                _mixed(a, real) - _mixed(b, imaginary),
                _mixed(a, imaginary) + _mixed(b, real),
            ]
            wide = nn.functional.pad(torch.stack(parts, -1), padding)
            back = torch.fft.irfft2(torch.view_as_complex(wide), s=(side, side))
            seen = nn.functional.gelu(beside(seen) + back)
        return self.last(seen.permute(0, 2, 3, 1))


def _mixed(planes: Tensor, factors: Tensor) -> Tensor:
    return torch.einsum("bixy,ioxy->boxy", planes, factors)


def _layers(*widths: int) -> nn.Sequential:
    pairs = itertools.pairwise(widths)
    return nn.Sequential(*(one for a, b in pairs for one in (nn.Linear(a, b), nn.ReLU())))


def _block(width: int, inner: int, far: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv1d(width, inner, 1),
        nn.PReLU(),
        nn.GroupNorm(1, inner),
        nn.Conv1d(inner, inner, 3, padding=far, dilation=far, groups=inner),
        nn.PReLU(),
        nn.GroupNorm(1, inner),
        nn.Conv1d(inner, width, 1),
    )


def _unet() -> Made:
    import diffusers  # noqa: PLC0415 (for this one alone)

    network = diffusers.UNet2DModel(
        sample_size=32,
        layers_per_block=1,
        block_out_channels=(64, 128, 256),
        down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"),
    )
    return Part(network, "sample"), torch.randn(1, 3, 32, 32), torch.tensor([7])


def _detr() -> Made:
    backbone = tf.ResNetConfig(
        depths=[2, 2, 2, 2],
        layer_type="basic",
        hidden_sizes=[64, 128, 256, 512],
        out_features=["stage4"],
    )
    config = tf.DetrConfig(
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=backbone,
        encoder_layers=3,
        decoder_layers=3,
    )
    network = tf.DetrForObjectDetection(config)
    return Part(network, "logits", "pred_boxes"), torch.randn(1, 3, 256, 256)


def _yolos() -> Made:
    config = tf.YolosConfig(
        hidden_size=192,
        num_attention_heads=3,
        intermediate_size=768,
        num_hidden_layers=6,
        image_size=[224, 320],
    )
    network = tf.YolosForObjectDetection(config)
    return Part(network, "logits", "pred_boxes"), torch.randn(1, 3, 224, 320)


def _conformer() -> Made:
    config = tf.Wav2Vec2ConformerConfig(
        num_hidden_layers=4,
        hidden_size=256,
        intermediate_size=1024,
        num_attention_heads=4,
        position_embeddings_type=None,
    )
    return Part(tf.Wav2Vec2ConformerModel(config), "last_hidden_state"), torch.randn(1, 16000)


def _wav2vec2() -> Made:
    network = tf.Wav2Vec2Model(tf.Wav2Vec2Config(num_hidden_layers=4))
    return Part(network, "last_hidden_state"), torch.randn(1, 16000)


def _vision(network: Any, side: int = 224, *names: str) -> Made:
    return Part(network, *(names or ("last_hidden_state",))), torch.randn(1, 3, side, side)


def _language(network: Any, name: str = "logits") -> Made:
    return Part(network, name), torch.randint(0, 1000, (1, 64))


def _efficient_net() -> tf.EfficientNetConfig:
    return tf.EfficientNetConfig(width_coefficient=1.0, depth_coefficient=1.0, hidden_dim=1280)


def _llama() -> Made:
    config = tf.LlamaConfig(
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=8000,
        use_cache=False,
    )
    return _language(tf.LlamaForCausalLM(config))


def _whisper() -> Made:
    sizes = {"decoder_layers": 1, "decoder_attention_heads": 6, "decoder_ffn_dim": 256}
    sizes |= {"encoder_layers": 4, "encoder_attention_heads": 6, "encoder_ffn_dim": 1536}
    encoder = tf.WhisperModel(tf.WhisperConfig(d_model=384, **sizes)).encoder
    return Part(encoder, "last_hidden_state"), torch.randn(1, 80, 3000)


NETWORKS: Final[Mapping[str, Callable[[], Made]]] = {
    "unet": _unet,
    "detr": _detr,
    "yolos": _yolos,
    "conformer": _conformer,
    "wav2vec2": _wav2vec2,
    "convtasnet": lambda: (Separation(), torch.randn(1, 256, 800)),
    "moe": lambda: (nn.Sequential(*(Experts() for _ in range(3))), torch.randn(1, 64, 384)),
    "dlrm": lambda: (Recommendation(), torch.randn(128, 13), torch.randint(0, 1000, (128, 26))),
    "fno": lambda: (FourierOperator(), torch.randn(1, 64, 64, 3)),
    "lstm": lambda: (Recurrent(), torch.randn(1, 40, 120)),
    "mobilenet_plain": lambda: _vision(tf.MobileNetV2Model(tf.MobileNetV2Config())),
    "convnext_plain": lambda: _vision(tf.ConvNextModel(tf.ConvNextConfig())),
    "resnet_plain": lambda: _vision(tf.ResNetModel(tf.ResNetConfig())),
    "efficientnet_plain": lambda: _vision(tf.EfficientNetModel(_efficient_net())),
    "segformer_256": lambda: _vision(
        tf.SegformerForSemanticSegmentation(tf.SegformerConfig()), 256, "logits"
    ),
    "vit_6": lambda: _vision(tf.ViTModel(tf.ViTConfig(num_hidden_layers=6))),
    "swin_plain": lambda: _vision(tf.SwinModel(tf.SwinConfig())),
    "bert_6": lambda: _language(
        tf.BertModel(tf.BertConfig(num_hidden_layers=6)), "last_hidden_state"
    ),
    "gpt2_4": lambda: _language(
        tf.GPT2LMHeadModel(tf.GPT2Config(n_layer=4, vocab_size=8000, use_cache=False))
    ),
    "llama_6": _llama,
    "whisper_encoder": _whisper,
}


def main() -> None:
    """Export what is missing, and say where it is."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--models", default=",".join(NETWORKS), help="separated by commas")
    folder = cache_folder() / "other-kinds"
    folder.mkdir(parents=True, exist_ok=True)
    for name in parser.parse_args().models.split(","):
        path = folder / f"{name}.onnx"
        if not path.is_file():
            torch.manual_seed(SEED)
            network, *fed = NETWORKS[name]()
            _export(network.eval(), tuple(fed), path)
        print(f"{name}: {path}", flush=True)


def _export(network: Any, fed: tuple[Any, ...], path: Path) -> None:
    try:
        torch.onnx.export(network, fed, path, dynamo=False, opset_version=17)
    except torch.onnx.errors.UnsupportedOperatorError:
        torch.onnx.export(network, fed, path, dynamo=True)


if __name__ == "__main__":
    main()
