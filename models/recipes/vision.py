"""Recipes for networks on pictures."""

__all__ = ["RECIPES"]

import functools
import itertools
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn
from torch.nn import functional

from .built import Array, Built, Sample
from .exports import Recipe, seeded, two_samples
from .samples import picture

_FILES = Path(__file__).parents[1] / "files"


def _pictures(name: str, *shape: int) -> list[Sample]:
    return two_samples(lambda rng, _k: {name: picture(rng, *shape)})


class _Gate(nn.Module):
    """Squeeze and excitation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(width, width // 4, 1), nn.Conv2d(width // 4, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean((2, 3), keepdim=True)
        return x * functional.hardsigmoid(self.up(functional.relu(self.down(mean))))


class _Inverted(nn.Module):
    """MobileNetV3's block: widen, convolve each channel, gate, narrow."""

    def __init__(self, width: int, inner: int, out: int, *, stride: int, gate: bool) -> None:
        super().__init__()
        act = nn.Hardswish if gate else nn.ReLU
        layers = [nn.Conv2d(width, inner, 1, bias=False), nn.BatchNorm2d(inner), act()]
        layers += [
            nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False),
            nn.BatchNorm2d(inner),
            act(),
        ]
        layers += [_Gate(inner)] if gate else []
        layers += [nn.Conv2d(inner, out, 1, bias=False), nn.BatchNorm2d(out)]
        self.layers, self.adds = nn.Sequential(*layers), stride == 1 and width == out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(x)
        return x + y if self.adds else y


def _mobilenet(*, dynamo: bool) -> Recipe:
    plan = [(16, 16, 16, 2, True), (16, 72, 24, 2, False), (24, 88, 24, 1, False)]
    plan += [(24, 96, 40, 2, True), (40, 240, 40, 1, True), (40, 240, 40, 1, True)]
    plan += [(40, 120, 48, 1, True), (48, 288, 96, 2, True), (96, 576, 96, 1, True)]
    module = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.Hardswish(),
        *(_Inverted(a, b, c, stride=s, gate=g) for a, b, c, s, g in plan),
        nn.Conv2d(96, 288, 1),
        nn.Hardswish(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(288, 100),
    )
    return Recipe(
        module=_warmed(module, 3),
        samples=_pictures("x", 1, 3, 160, 160),
        outputs=["logits"],
        opset=20 if dynamo else 14,
        dynamo=dynamo,
        axes={} if dynamo else {"x": {0: "batch"}},
    )


def _warmed(module: nn.Module, channels: int) -> nn.Module:
    """Let batch norms see some pictures, so that values keep a size like that of trained ones."""
    module.train()
    with torch.no_grad():
        for _ in range(4):
            module(torch.rand(4, channels, 96, 96) * 2 - 1)
    return module


def _fused() -> Built:
    """The result of TorchScript's exporter after onnxruntime has fused what it fuses."""
    import onnxruntime

    built = RECIPES["mobilenetv3_ts"]()
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(Path(folder, "fused.onnx"))
        options.log_severity_level = 4
        onnxruntime.InferenceSession(
            built.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return Built(onnx.load(options.optimized_model_filepath), built.samples)


class _ConvNextBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(0.3 * torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.down(functional.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


def _convnext() -> Recipe:
    widths = (32, 64, 128)
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 4, 4)]
    for index, width in enumerate(widths):
        layers += [_ConvNextBlock(width), _ConvNextBlock(width)]
        if index + 1 < len(widths):
            layers += [nn.GroupNorm(1, width), nn.Conv2d(width, widths[index + 1], 2, 2)]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(128), nn.Linear(128, 100)]
    return Recipe(
        module=nn.Sequential(*layers),
        samples=_pictures("x", 1, 3, 128, 128),
        outputs=["logits"],
        opset=21,
        dynamo=True,
    )


class _ViT(nn.Module):
    def __init__(self, width: int = 96, size: int = 128, patch: int = 16) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.randn(1, 1, width))
        self.place = nn.Parameter(0.1 * torch.randn(1, (size // patch) ** 2 + 1, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, 4, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(4)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.cut(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.first.expand(y.shape[0], -1, -1), y], 1) + self.place
        for layer in self.layers:
            z = layer.norm1(y)
            y = y + layer.self_attn(z, z, z, need_weights=True)[0]
            y = y + layer.linear2(functional.gelu(layer.linear1(layer.norm2(y))))
        return self.head(self.norm(y)[:, 0])


def _vit() -> Recipe:
    return Recipe(
        module=_ViT(),
        samples=_pictures("x", 1, 3, 128, 128),
        outputs=["logits"],
        opset=17,
        axes={"x": {0: "batch"}},
    )


def _twice(width: int, out: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(width, out, 3, 1, 1),
        nn.BatchNorm2d(out),
        nn.ReLU(),
        nn.Conv2d(out, out, 3, 1, 1),
        nn.BatchNorm2d(out),
        nn.ReLU(),
    )


class _UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([_twice(3, 16), _twice(16, 32), _twice(32, 64)])
        self.grow = nn.ConvTranspose2d(64, 32, 2, 2)
        self.up = nn.ModuleList([_twice(64, 32), _twice(48, 16)])
        self.head = nn.Conv2d(16, 4, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        one = self.down[0](image)
        two = self.down[1](functional.max_pool2d(one, 2))
        three = self.down[2](functional.max_pool2d(two, 2))
        y = self.up[0](torch.cat([self.grow(three), two], 1))
        y = functional.interpolate(y, scale_factor=2.0, mode="bilinear", align_corners=False)
        y = self.up[1](torch.cat([y, one], 1))
        return torch.softmax(self.head(y), 1)


def _unet() -> Recipe:
    return Recipe(
        module=_warmed(_UNet(), 3),
        samples=two_samples(lambda rng, k: {"image": picture(rng, 1, 3, 64 + 32 * k, 96)}),
        outputs=["mask"],
        opset=12,
        axes={"image": {0: "n", 2: "h", 3: "w"}},
    )


class _SuperResolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 24, 3, 1, 1)
        self.layers = nn.ModuleList(nn.Conv2d(24, 24, 3, 1, 1) for _ in range(4))
        self.bends = nn.ModuleList(nn.PReLU(24) for _ in range(4))
        self.last = nn.Conv2d(24, 12, 3, 1, 1)

    def forward(self, lr: torch.Tensor) -> torch.Tensor:
        y = self.first(lr)
        for layer, bend in zip(self.layers, self.bends, strict=True):
            y = y + 0.5 * bend(layer(y))
        large = functional.interpolate(lr, scale_factor=2.0, mode="nearest")
        return torch.clamp(functional.pixel_shuffle(self.last(y), 2) + large, -1.0, 1.0)


def _superres() -> Recipe:
    return Recipe(
        module=_SuperResolution(),
        samples=two_samples(lambda rng, k: {"lr": picture(rng, 1, 3, 32, 40 + 8 * k)}),
        outputs=["hr"],
        opset=11,
        axes={"lr": {2: "h", 3: "w"}},
    )


class _Detector(nn.Module):
    """A grid of boxes in pixels, scores, and the selection by NonMaxSuppression."""

    def __init__(self, size: int = 128, classes: int = 6) -> None:
        super().__init__()
        widths = (3, 16, 32, 48, 64)
        self.body = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.SiLU())
                for a, b in itertools.pairwise(widths)
            )
        )
        self.box, self.score = nn.Conv2d(64, 4, 1), nn.Conv2d(64, classes, 1)
        self.stride, self.cells = 16, size // 16

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.body(images)
        if self.training:  # on pictures of any size, for the statistics alone
            return self.box(y), self.score(y)
        steps = torch.arange(self.cells, dtype=torch.float32)
        row, column = torch.meshgrid(steps, steps, indexing="ij")
        places = torch.stack([column, row], -1).reshape(1, -1, 2)
        box = self.box(y).flatten(2).transpose(1, 2)
        middle = (torch.sigmoid(box[..., :2]) + places) * self.stride
        half = torch.exp(box[..., 2:]) * self.stride / 2
        boxes = torch.cat([middle - half, middle + half], -1)
        return boxes, torch.sigmoid(self.score(y).flatten(2))


def _detector() -> Built:
    built = seeded(
        lambda: Recipe(
            module=_warmed(_Detector(), 3),
            samples=_pictures("images", 1, 3, 128, 128),
            outputs=["boxes", "scores"],
            opset=13,
        ),
        6,
    )()
    graph = built.model.graph
    limits: dict[str, Array] = {
        "nms_most": np.array([20], np.int64),
        "nms_overlap": np.array([0.5], np.float32),
        "nms_least": np.array([0.3], np.float32),
    }
    for name, value in limits.items():
        graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    operands = ["boxes", "scores", "nms_most", "nms_overlap", "nms_least"]
    graph.node.append(
        onnx.helper.make_node("NonMaxSuppression", operands, ["selected"], name="select")
    )
    graph.output.append(
        onnx.helper.make_tensor_value_info("selected", onnx.TensorProto.INT64, ["count", 3])
    )
    return built


class _Residual(nn.Module):
    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(width, out, 3, stride, 1)
        self.two = nn.Conv2d(out, out, 3, 1, 1)
        self.skip = (
            nn.Conv2d(width, out, 1, stride) if (stride, width) != (1, out) else nn.Identity()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.two(functional.relu(self.one(x))) + self.skip(x))


def _digits() -> Recipe:
    """The packaged network, by the other exporter."""
    packaged = onnx.load(_FILES / "digits_resnet_ts.onnx").graph
    weights = {each.name: onnx.numpy_helper.to_array(each) for each in packaged.initializer}
    module = nn.Sequential(
        nn.Conv2d(1, 16, 3, 1, 1),
        nn.ReLU(),
        _Residual(16, 16, 1),
        _Residual(16, 32, 2),
        _Residual(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )
    layers = [each for each in module.modules() if isinstance(each, nn.Conv2d | nn.Linear)]
    nodes = [node for node in packaged.node if node.op_type in {"Conv", "Gemm"}]
    for layer, node in zip(layers, nodes, strict=True):
        layer.weight.data = torch.from_numpy(weights[node.input[1]].copy())
        layer.bias.data = torch.from_numpy(weights[node.input[2]].copy())
    labels = np.load(_FILES / "digits_resnet_ts.labels.npz")
    return Recipe(
        module=module,
        samples=[dict(np.load(_FILES / f"digits_resnet_ts{end}.npz")) for end in ("", ".1")],
        outputs=["logits"],
        opset=18,
        dynamo=True,
        axes={"image": {0: "n"}},
        labels=[labels[name] for name in sorted(labels)],
    )


RECIPES: Mapping[str, Callable[[], Built]] = {
    "convnext_dyn": seeded(_convnext, 2),
    "digits_resnet_dyn": seeded(_digits, 0),
    "mobilenetv3_dyn": seeded(functools.partial(_mobilenet, dynamo=True), 1),
    "mobilenetv3_ortopt": _fused,
    "mobilenetv3_ts": seeded(functools.partial(_mobilenet, dynamo=False), 1),
    "superres_ts": seeded(_superres, 5),
    "unet_ts": seeded(_unet, 4),
    "vit_tiny_ts": seeded(_vit, 3),
    "yolo_nms_ts": _detector,
}
