"""Recipes for networks on text: encoders, and decoders with keys and values of earlier words."""

__all__ = ["RECIPES"]

import math
import pydoc_data.topics
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from .built import Array, Built, Sample, normal
from .exports import Recipe, seeded, two_samples

_Pair = tuple[torch.Tensor, torch.Tensor]


class _Attention(nn.Module):
    """Attention with a mask that is added, and if asked for turned positions and fewer keys."""

    def __init__(
        self, width: int, heads: int, *, keys: int | None = None, bias: bool = True
    ) -> None:
        super().__init__()
        self.heads, self.keys, self.size = heads, keys or heads, width // heads
        self.q = nn.Linear(width, width, bias)
        self.k = nn.Linear(width, self.keys * self.size, bias)
        self.v = nn.Linear(width, self.keys * self.size, bias)
        self.out = nn.Linear(width, width, bias)

    def forward(
        self,
        x: torch.Tensor,
        mask: torch.Tensor,
        *,
        past: _Pair | None = None,
        turn: _Pair | None = None,
        scale: bool = True,
    ) -> tuple[torch.Tensor, _Pair]:
        q, k, v = (
            layer(x).view(x.shape[0], x.shape[1], count, self.size).transpose(1, 2)
            for layer, count in ((self.q, self.heads), (self.k, self.keys), (self.v, self.keys))
        )
        if turn is not None:
            q, k = _turned(q, turn), _turned(k, turn)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        present = (k, v)
        if self.keys < self.heads:
            k, v = (each.repeat_interleave(self.heads // self.keys, 1) for each in present)
        scores = q @ k.transpose(-1, -2)
        if scale:
            scores = scores / math.sqrt(self.size)
        y = torch.softmax(scores + mask, -1) @ v
        return self.out(y.transpose(1, 2).reshape(x.shape)), present


def _turned(x: torch.Tensor, turn: _Pair) -> torch.Tensor:
    """Rotary positions."""
    low, high = x.chunk(2, -1)
    return x * turn[0] + torch.cat([-high, low], -1) * turn[1]


def _turn(places: torch.Tensor, size: int) -> _Pair:
    """The cosines and sines of positions."""
    rates = 10000.0 ** (-torch.arange(0, size, 2, dtype=torch.float32) / size)
    angles = places[:, None, :, None].to(torch.float32) * rates
    angles = torch.cat([angles, angles], -1)
    return angles.cos(), angles.sin()


class _RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def _masked(seen: torch.Tensor) -> torch.Tensor:
    """What is added to scores: the lowest float32 where nothing is to be seen."""
    return (1.0 - seen.to(torch.float32)) * torch.finfo(torch.float32).min


class _Bert(nn.Module):
    def __init__(self, width: int = 96, words: int = 2000, layers: int = 3) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(128, width)
        self.first = nn.LayerNorm(width)
        self.attend = nn.ModuleList(_Attention(width, 4) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.pool = nn.Linear(width, width)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        places = torch.arange(input_ids.shape[1])
        x = self.first(self.words(input_ids) + self.places(places))
        mask = _masked(attention_mask[:, None, None, :])
        for index, attend in enumerate(self.attend):
            x = self.norms[2 * index](x + attend(x, mask)[0])
            inner = self.down[index](functional.gelu(self.up[index](x)))
            x = self.norms[2 * index + 1](x + inner)
        return x, torch.tanh(self.pool(x[:, 0]))


def _words(rng: np.random.Generator, k: int, words: int) -> dict[str, Array]:
    """Some sequences, the last of which is shorter."""
    ids = rng.integers(1, words, (2, 12 + 5 * k))
    mask = np.ones_like(ids)
    mask[-1, -4:] = 0
    return {"input_ids": ids * mask, "attention_mask": mask}


_FREE = {0: "batch", 1: "words"}


def _bert(*, dynamo: bool) -> Recipe:
    return Recipe(
        module=_Bert(),
        samples=two_samples(lambda rng, k: _words(rng, k, 2000)),
        outputs=["last_hidden_state", "pooler_output"],
        opset=18 if dynamo else 14,
        dynamo=dynamo,
        axes={"input_ids": _FREE, "attention_mask": _FREE},
    )


class _T5(nn.Module):
    """An encoder whose scores get a bias by distance, neither scaled nor with other positions."""

    def __init__(self, width: int = 96, words: int = 1500, layers: int = 3) -> None:
        super().__init__()
        self.words, self.near = nn.Embedding(words, width), nn.Embedding(32, 4)
        self.attend = nn.ModuleList(_Attention(width, 4, bias=False) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(width, 3 * width, False) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(3 * width, width, False) for _ in range(layers))
        self.norms = nn.ModuleList(_RMSNorm(width) for _ in range(2 * layers + 1))

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        places = torch.arange(input_ids.shape[1])
        apart = places[None, :] - places[:, None]
        far = apart.abs().to(torch.float32)
        # Distances from 8 on share buckets by their logarithm.
        coarse = 8 + (torch.log(far.clamp(min=1.0) / 8) / math.log(16) * 8).to(torch.int64)
        bucket = torch.where(far < 8, far.to(torch.int64), coarse.clamp(max=15))
        bucket = bucket + 16 * (apart > 0).to(torch.int64)
        mask = self.near(bucket).permute(2, 0, 1)[None] + _masked(attention_mask[:, None, None, :])
        x = self.words(input_ids)
        for index, attend in enumerate(self.attend):
            x = x + attend(self.norms[2 * index](x), mask, scale=False)[0]
            y = self.norms[2 * index + 1](x)
            x = x + self.down[index](functional.relu(self.up[index](y)))
        return self.norms[-1](x)


def _t5() -> Recipe:
    return Recipe(
        module=_T5(),
        samples=two_samples(lambda rng, k: _words(rng, k, 1500)),
        outputs=["hidden"],
        opset=14,
        axes={"input_ids": _FREE, "attention_mask": _FREE},
    )


class _Decoder(nn.Module):
    """GPT-2 (learned places, LayerNorm, GELU) or Llama (turned places, RMSNorm, gated SiLU)."""

    def __init__(
        self, *, llama: bool, width: int = 128, words: int = 1000, layers: int = 3
    ) -> None:
        super().__init__()
        self.llama, self.size = llama, width // 4
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(256, width)
        norm = _RMSNorm if llama else nn.LayerNorm
        self.attend = nn.ModuleList(
            _Attention(width, 4, keys=2 if llama else None, bias=not llama) for _ in range(layers)
        )
        self.up = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.gate = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(3 * width, width) for _ in range(layers))
        self.norms = nn.ModuleList(norm(width) for _ in range(2 * layers + 1))
        self.head = nn.Linear(width, words, False)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        position_ids: torch.Tensor,
        *past: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        words, all_words = input_ids.shape[1], attention_mask.shape[1]
        x = self.words(input_ids)
        if not self.llama:
            x = x + self.places(position_ids)
        turn = _turn(position_ids, self.size) if self.llama else None
        earlier = torch.arange(all_words)[None, :] <= (
            torch.arange(words)[:, None] + (all_words - words)
        )
        mask = _masked(earlier[None, None] & (attention_mask[:, None, None, :] > 0))
        present: list[torch.Tensor] = []
        for index, attend in enumerate(self.attend):
            held = (past[2 * index], past[2 * index + 1]) if past else None
            y, pair = attend(self.norms[2 * index](x), mask, past=held, turn=turn)
            present += pair
            x = x + y
            x = x + self.down[index](self._inner(index, self.norms[2 * index + 1](x)))
        logits = self.head(self.norms[-1](x))
        return (logits, *present) if past else (logits,)

    def _inner(self, index: int, x: torch.Tensor) -> torch.Tensor:
        if self.llama:
            return functional.silu(self.gate[index](x)) * self.up[index](x)
        return functional.gelu(self.up[index](x), approximate="tanh")


_LAYERS = 3
_PAST = [f"past_{what}_{index}" for index in range(_LAYERS) for what in ("key", "value")]


def _decoder_sample(rng: np.random.Generator, k: int, keys: int) -> Sample:
    """Some words after others, whose keys and values are given."""
    words, past = 3 + k, 7 + 2 * k
    return {
        "input_ids": rng.integers(0, 1000, (2, words)),
        "attention_mask": np.ones((2, past + words), np.int64),
        "position_ids": np.tile(np.arange(past, past + words), (2, 1)),
        **{name: normal(rng, 2, keys, past, 32) for name in _PAST},
    }


def _decoder(*, llama: bool) -> Recipe:
    keys = 2 if llama else 4
    return Recipe(
        module=_Decoder(llama=llama),
        samples=two_samples(lambda rng, k: _decoder_sample(rng, k, keys)),
        outputs=["logits", *(name.replace("past", "present") for name in _PAST)],
        opset=18 if llama else 17,
        dynamo=llama,
        axes={
            "input_ids": {0: "b", 1: "t"},
            "attention_mask": {0: "b", 1: "all"},
            "position_ids": {0: "b", 1: "t"},
            **{name: {0: "b", 2: "past"} for name in _PAST},
        },
    )


class _Letters(nn.Module):
    """The decoder alone: letters in, logits of the next ones out."""

    def __init__(self) -> None:
        super().__init__()
        self.decoder = _Decoder(llama=True, width=96, words=128)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        places = torch.arange(ids.shape[1])[None].expand(ids.shape[0], -1)
        return self.decoder(ids, torch.ones_like(ids), places)[0]


_STEPS = 150


def _letters() -> Recipe:
    """Trained for a minute on the texts that Python's help shows."""
    text = "".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    codes = torch.tensor([ord(letter) % 128 for letter in text[:200_000]])
    module = _Letters()
    optimizer = torch.optim.AdamW(module.parameters(), 3e-3)
    for _ in range(_STEPS):
        starts = torch.randint(0, len(codes) - 65, (16,))
        batch = torch.stack([codes[start : start + 65] for start in starts.tolist()])
        logits = module(batch[:, :-1]).flatten(0, 1)
        loss = functional.cross_entropy(logits, batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    pieces = [codes[start : start + 97].numpy() for start in (1000, 50_000, 90_000, 150_000)]
    samples = [np.stack(pieces[:2]), np.stack(pieces[2:])]
    return Recipe(
        module=module,
        samples=[{"ids": sample[:, :-1]} for sample in samples],
        outputs=["logits"],
        opset=17,
        axes={"ids": {0: "b", 1: "t"}},
        labels=[sample[:, 1:] for sample in samples],
    )


class _Tagger(nn.Module):
    def __init__(self, width: int = 48, tags: int = 17) -> None:
        super().__init__()
        self.words = nn.Embedding(500, 32)
        self.lstm = nn.LSTM(32, width, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * width, tags)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, (hidden, _) = self.lstm(self.words(ids) * mask[..., None])
        return functional.log_softmax(self.head(y), -1), hidden


def _tagger() -> Recipe:
    return Recipe(
        module=_Tagger(),
        samples=two_samples(
            lambda rng, k: {
                "ids": rng.integers(0, 500, (2, 9 + 3 * k)),
                "mask": np.ones((2, 9 + 3 * k), np.float32),
            }
        ),
        outputs=["log_probs", "hidden"],
        opset=14,
        axes={"ids": {0: "b", 1: "t"}, "mask": {0: "b", 1: "t"}},
    )


class _Experts(nn.Module):
    """A mixture of experts: all are computed, the two that the router prefers count."""

    def __init__(self, width: int = 64, experts: int = 6) -> None:
        super().__init__()
        self.norm, self.route = nn.LayerNorm(width), nn.Linear(width, experts)
        self.up = nn.Parameter(torch.randn(experts, width, 2 * width) / 8)
        self.down = nn.Parameter(torch.randn(experts, 2 * width, width) / 12)

    def forward(self, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.norm(hidden)
        weights, chosen = torch.topk(torch.softmax(self.route(x), -1), 2)
        weights = weights / weights.sum(-1, keepdim=True)
        inner = functional.silu(torch.einsum("btw,ewi->btei", x, self.up))
        every = torch.einsum("btei,eiw->btew", inner, self.down)
        index = chosen[..., None].expand(-1, -1, -1, every.shape[-1])
        picked = torch.gather(every, 2, index)
        return hidden + (picked * weights[..., None]).sum(2), chosen


def _experts() -> Recipe:
    return Recipe(
        module=_Experts(),
        samples=two_samples(lambda rng, k: {"hidden": normal(rng, 1, 8 + 4 * k, 64)}),
        outputs=["out", "experts"],
        opset=16,
        axes={"hidden": {0: "b", 1: "t"}},
    )


RECIPES: Mapping[str, Callable[[], Built]] = {
    "bert_tiny_dyn": seeded(lambda: _bert(dynamo=True), 11),
    "bert_tiny_ts": seeded(lambda: _bert(dynamo=False), 11),
    "charlm_llama_ts": seeded(_letters, 15),
    "gpt2_kv_ts": seeded(lambda: _decoder(llama=False), 13),
    "llama_kv_dyn": seeded(lambda: _decoder(llama=True), 14),
    "lstm_tagger_ts": seeded(_tagger, 16),
    "moe_dense_ts": seeded(_experts, 17),
    "t5_encoder_ts": seeded(_t5, 12),
}
