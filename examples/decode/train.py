"""Train the small decoder of this example on the project's own pages; needs PyTorch.

Two or three minutes on two processors. Writes ``weights.npz``, which the example reads.
"""

import argparse
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

HERE = Path(__file__).parent
LAYERS, HEADS, KV_HEADS, HEAD_SIZE, HIDDEN = 3, 4, 2, 16, 160
WIDTH, WINDOW, BATCH = HEADS * HEAD_SIZE, 128, 16


class Layer(nn.Module):
    """Attention with grouped queries, then a gated perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key = nn.Linear(WIDTH, KV_HEADS * HEAD_SIZE, bias=False)
        self.value = nn.Linear(WIDTH, KV_HEADS * HEAD_SIZE, bias=False)
        self.mix = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        """Add to every position what it reads in those before it."""
        h = self.before_attention(x)
        query = _rotated(_split(self.query(h), HEADS), cos, sin)
        key = _rotated(_split(self.key(h), KV_HEADS), cos, sin)
        value = _split(self.value(h), KV_HEADS)
        mixed = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=True
        )
        x = x + self.mix(mixed.transpose(1, 2).flatten(2))
        h = self.before_mlp(x)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    """Characters in, the scores of the next character out."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, WIDTH)
        nn.init.normal_(self.embedding.weight, std=0.05)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.last = nn.RMSNorm(WIDTH)

    def forward(self, ids: Any) -> Any:
        """Return the scores of the character after each position."""
        angles = torch.arange(ids.shape[1])[:, None] * frequencies()
        cos, sin = angles.cos(), angles.sin()
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.last(x) @ self.embedding.weight.T


def frequencies() -> Any:
    """Return the angles by which one position turns the pairs of a head."""
    return 10_000 ** (-torch.arange(HEAD_SIZE // 2) / (HEAD_SIZE // 2))


def _split(x: Any, heads: int) -> Any:
    return x.unflatten(2, (heads, HEAD_SIZE)).transpose(1, 2)


def _rotated(x: Any, cos: Any, sin: Any) -> Any:
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def own_text() -> str:
    """Return the sentences of the project's pages, without their code and tables."""
    root = HERE.parents[1]
    pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    text = re.sub(
        r"```.*?```|^[|#:!].*?$|\[([^]]*)\]\([^)]*\)", r"\1", text, flags=re.DOTALL | re.MULTILINE
    )
    text = re.sub(r"[^\x20-\x7e\n]", "", text)
    return re.sub(r"\n{2,}", "\n\n", re.sub(r"(?<=\S)\n(?=[a-zA-Z`])", " ", text))


def main() -> None:
    """Train, and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2500)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    text = own_text()
    characters = "".join(sorted(set(text)))
    ids = torch.tensor([characters.index(one) for one in text])
    model = Decoder(len(characters))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, steps, pct_start=0.1)
    for step in range(steps):
        starts = torch.randint(len(ids) - WINDOW - 1, (BATCH,))
        batch = torch.stack([ids[at : at + WINDOW + 1] for at in starts])
        scores = model(batch[:, :-1])
        loss = functional.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == steps - 1:
            print(f"step {step}: {loss.item():.3f} nats a character", flush=True)
    weights = {name: one.numpy().astype(np.float16) for name, one in model.state_dict().items()}
    np.savez_compressed(HERE / "weights.npz", characters=np.array(characters), **weights)


if __name__ == "__main__":
    main()
