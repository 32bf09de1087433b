"""Three kinds of torch models, each as both exporters of torch take it."""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

__all__ = ["EXPORTERS", "KINDS", "Network", "network"]

KINDS = ("cnn", "decoder", "control_flow")

EXPORTERS = ("dynamo", "torchscript")

_WIDTH, _HEADS, _LAYERS, _WORDS = 32, 4, 2, 50


@dataclasses.dataclass(frozen=True)
class Network:
    """A model, what it is run on, and the names of what goes in and out.

    Attributes:
        module: The model.
        args: Its arguments.
        inputs: Names of the arguments.
        outputs: Names of the results.
        free: Names of free dimensions, by input and axis.
    """

    module: nn.Module
    args: tuple[torch.Tensor, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    free: dict[str, dict[int, str]]


class _Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, groups=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.second(torch.relu(self.norm(self.first(x)))))


def _cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.SiLU(),
        _Residual(8),
        nn.MaxPool2d(2),
        _Residual(8),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
        nn.Softmax(-1),
    )


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.all_three = nn.Linear(_WIDTH, 3 * _WIDTH)
        self.out = nn.Linear(_WIDTH, _WIDTH)

    def forward(
        self, x: torch.Tensor, past: torch.Tensor, mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        batch, length, _ = x.shape
        split = self.all_three(x).reshape(batch, length, 3, _HEADS, _WIDTH // _HEADS)
        query, *rest = split.permute(2, 0, 3, 1, 4).unbind(0)
        present = torch.cat([past, torch.stack(rest)], dim=3)
        key, value = present.unbind(0)
        scores = query @ key.transpose(-1, -2) / (_WIDTH // _HEADS) ** 0.5 + mask
        mixed = torch.softmax(scores, dim=-1) @ value
        return self.out(mixed.transpose(1, 2).reshape(batch, length, _WIDTH)), present


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(_WIDTH), nn.LayerNorm(_WIDTH)])
        self.attention = _Attention()
        self.feed = nn.Sequential(
            nn.Linear(_WIDTH, 4 * _WIDTH), nn.GELU(), nn.Linear(4 * _WIDTH, _WIDTH)
        )

    def forward(
        self, x: torch.Tensor, past: torch.Tensor, mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        mixed, present = self.attention(self.norms[0](x), past, mask)
        x = x + mixed
        return x + self.feed(self.norms[1](x)), present


class _Decoder(nn.Module):
    """Keys and values of each layer come in, and go out longer by the new tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(_WORDS, _WIDTH)
        self.layers = nn.ModuleList([_Layer() for _ in range(_LAYERS)])
        self.norm = nn.LayerNorm(_WIDTH)

    def forward(self, tokens: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        before, length = past[0].shape[3], tokens.shape[1]
        place = torch.arange(length, device=tokens.device) + before
        reach = torch.arange(before + length, device=tokens.device)
        hidden = reach[None, :] > place[:, None]
        mask = torch.where(hidden, torch.finfo(torch.float32).min, 0.0)
        rates = 0.1 ** (torch.arange(_WIDTH // 2, device=tokens.device) / (_WIDTH / 8))
        angles = place.float()[:, None] * rates
        x = self.words(tokens) + torch.cat([angles.sin(), angles.cos()], dim=-1)
        presents = []
        for layer, state in zip(self.layers, past, strict=True):
            x, present = layer(x, state, mask)
            presents.append(present)
        return self.norm(x) @ self.words.weight.T, *presents


class _Scripted(nn.Module):
    """A choice and a repetition that depend on data, in Python's own words."""

    def __init__(self) -> None:
        super().__init__()
        self.calm, self.wild = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.calm(x)) if bool(x.sum() > 0) else torch.sigmoid(self.wild(x))
        for _ in range(int(times)):
            y = torch.tanh(self.calm(y) + x)
        return y


class _Ordered(_Scripted):
    """The same in the words that torch.export takes."""

    def forward(self, x: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        def positive(x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.calm(x))

        def negative(x: torch.Tensor) -> torch.Tensor:
            return torch.sigmoid(self.wild(x))

        def going(_: torch.Tensor, left: torch.Tensor) -> torch.Tensor:
            return left > 0

        def step(y: torch.Tensor, left: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.tanh(self.calm(y) + x), left - 1

        y = torch.cond(x.sum() > 0, positive, negative, (x,))
        y, _ = torch._higher_order_ops.while_loop(going, step, (y, times.clone()))
        return y


def network(kind: str, exporter: str) -> Network:
    """A model of one of `KINDS` for one of `EXPORTERS`, the same numbers for both."""
    torch.manual_seed(0)
    made: Callable[[], Any] = {"cnn": _cnn, "decoder": _Decoder}.get(kind, _Ordered)
    if kind == "control_flow" and exporter == "torchscript":
        made = _Scripted
    module = made().eval()
    if kind == "cnn":
        return Network(module, (torch.randn(2, 3, 32, 32),), ("image",), ("scores",), {})
    if kind == "control_flow":
        args = (torch.randn(4, 16), torch.tensor(3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch gives up TorchScript, its users not yet
            module = torch.jit.script(module) if made is _Scripted else module
        return Network(module, args, ("x", "times"), ("y",), {})
    past = [torch.randn(2, 1, _HEADS, 5, _WIDTH // _HEADS) for _ in range(_LAYERS)]
    names = [f"past_{layer}" for layer in range(_LAYERS)]
    return Network(
        module,
        (torch.randint(0, _WORDS, (1, 3)), *past),
        ("tokens", *names),
        ("logits", *(name.replace("past", "present") for name in names)),
        {"tokens": {1: "length"}, **{name: {3: "before"} for name in names}},
    )
