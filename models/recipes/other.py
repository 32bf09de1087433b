"""Recipes for sound, diffusion and control flow."""

__all__ = ["RECIPES"]

import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from .built import Array, Built, normal
from .exports import Recipe, seeded, two_samples
from .samples import sound


def _waves(count: int, width: int) -> torch.Tensor:
    """Sines and cosines of positions, as a table."""
    rates = torch.exp(-math.log(10000) * torch.arange(width // 2) / (width // 2 - 1))
    angles = torch.arange(count)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1)


class _Whisper(nn.Module):
    def __init__(self, width: int = 96, frames: int = 400, layers: int = 2) -> None:
        super().__init__()
        self.one, self.two = nn.Conv1d(80, width, 3, 1, 1), nn.Conv1d(width, width, 3, 2, 1)
        self.register_buffer("places", _waves(frames // 2, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, input_features: torch.Tensor) -> torch.Tensor:
        y = functional.gelu(self.two(functional.gelu(self.one(input_features))))
        y = y.transpose(1, 2) + self.places
        for layer in self.layers:
            z = layer.norm1(y)
            y = y + layer.self_attn(z, z, z, need_weights=False)[0]
            y = y + layer.linear2(functional.gelu(layer.linear1(layer.norm2(y))))
        return self.norm(y)


def _loudness(rng: np.random.Generator, bands: int, frames: int) -> Array:
    """Something like the logarithm of a spectrum, from -1 to 1.5."""
    wave = sound(rng, frames * 160).reshape(frames, 160)
    spectrum = np.abs(np.fft.rfft(wave, 2 * bands))[:, :bands].T
    return (np.log10(np.maximum(spectrum, 1e-4)) / 2 + 1)[None].astype(np.float32)


def _whisper() -> Recipe:
    return Recipe(
        module=_Whisper(),
        samples=two_samples(lambda rng, _k: {"input_features": _loudness(rng, 80, 400)}),
        outputs=["hidden"],
        opset=18,
        dynamo=True,
    )


class _Mel(nn.Module):
    """A spectrum of short pieces, its logarithm, and a small network on that."""

    def __init__(self, bands: int = 40) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(400))
        self.register_buffer("bands", torch.rand(201, bands) ** 8)
        self.one, self.two = nn.Conv1d(bands, 48, 5, 2), nn.Conv1d(48, 48, 5, 2)
        self.head = nn.Linear(48, 10)

    def forward(self, wav: torch.Tensor) -> torch.Tensor:
        parts = torch.stft(wav, 400, 160, window=self.window, center=False, return_complex=False)
        power = parts.pow(2).sum(-1)
        mel = (power.transpose(1, 2) @ self.bands).clamp(min=1e-10).log10()
        mel = torch.maximum(mel, mel.amax() - 8.0)
        y = functional.gelu(self.one(((mel + 4) / 4).transpose(1, 2)))
        return self.head(functional.gelu(self.two(y)).mean(-1))


def _mel() -> Recipe:
    return Recipe(
        module=_Mel(),
        samples=two_samples(lambda rng, _k: {"wav": sound(rng, 1, 16000)}),
        outputs=["logits"],
        opset=17,
    )


class _Diffusion(nn.Module):
    """One level of a denoiser: time moves the channels, a context is attended to."""

    def __init__(self, width: int = 64, context: int = 48) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.first = nn.Conv2d(4, width, 3, 1, 1)
        self.norms = nn.ModuleList(nn.GroupNorm(8, width) for _ in range(3))
        self.one, self.two = nn.Conv2d(width, width, 3, 1, 1), nn.Conv2d(width, width, 3, 1, 1)
        self.q = nn.Linear(width, width, False)
        self.kv = nn.Linear(context, 2 * width, False)
        self.out, self.last = nn.Linear(width, width), nn.Conv2d(width, 4, 3, 1, 1)
        self.width = width

    def forward(
        self, latent: torch.Tensor, timestep: torch.Tensor, context: torch.Tensor
    ) -> torch.Tensor:
        half = self.width // 2
        rates = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32) / half)
        angles = timestep[:, None].to(torch.float32) * rates[None]
        time = self.time(torch.cat([angles.cos(), angles.sin()], -1))
        x = self.first(latent)
        y = self.one(functional.silu(self.norms[0](x))) + time[:, :, None, None]
        x = x + self.two(functional.silu(self.norms[1](y)))
        batch, width, height, wide = x.shape
        q = self.q(self.norms[2](x).flatten(2).transpose(1, 2))
        k, v = self.kv(context).chunk(2, -1)
        q, k, v = (each.reshape(batch, -1, 4, width // 4).transpose(1, 2) for each in (q, k, v))
        y = torch.softmax(q @ k.transpose(-1, -2) * (width // 4) ** -0.5, -1) @ v
        y = self.out(y.transpose(1, 2).reshape(batch, height * wide, width))
        return self.last(x + y.transpose(1, 2).reshape(x.shape))


def _diffusion() -> Recipe:
    return Recipe(
        module=_Diffusion(),
        samples=two_samples(
            lambda rng, k: {
                "latent": normal(rng, 1, 4, 24, 24),
                "timestep": np.array([701 - 400 * k]),
                "context": normal(rng, 1, 20, 48),
            }
        ),
        outputs=["noise"],
        opset=17,
        axes={"latent": {0: "b"}, "timestep": {0: "b"}, "context": {0: "b"}},
    )


class _Turns(nn.Module):
    """A Loop whose body chooses by an If, reading weights from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.head = nn.Linear(48, 48), nn.Linear(48, 48), nn.Linear(48, 5)

    def forward(self, x: torch.Tensor, steps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        state = torch.zeros_like(x)
        for step in range(int(steps)):
            if step % 2 == 0:
                state = torch.tanh(self.one(state) + x)
            else:
                state = state + 0.5 * torch.relu(self.two(state))
        return self.head(state), state


def _turns() -> Recipe:
    return Recipe(
        module=_Turns(),
        samples=two_samples(lambda rng, k: {"x": normal(rng, 3, 48), "steps": np.array(5 - 2 * k)}),
        outputs=["y", "state"],
        opset=16,
        axes={"x": {0: "b"}},
        scripted=True,
    )


class _Choice(nn.Module):
    """An If by the sign of a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.head = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def high(x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.one(x)) * 2.0

        def low(x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.two(x)) - 0.5

        return self.head(torch.cond(x.sum() > 0, high, low, (x,)) + x)


def _choice() -> Recipe:
    return Recipe(
        module=_Choice(),
        samples=two_samples(lambda rng, k: {"x": normal(rng, 6, 32) + np.float32(0.5 - k)}),
        outputs=["y"],
        opset=18,
        dynamo=True,
    )


RECIPES: Mapping[str, Callable[[], Built]] = {
    "cond_if_dyn": seeded(_choice, 25),
    "diffusion_block_ts": seeded(_diffusion, 23),
    "loop_if_ts": seeded(_turns, 24),
    "stft_mel_ts": seeded(_mel, 22),
    "whisper_enc_dyn": seeded(_whisper, 21),
}
