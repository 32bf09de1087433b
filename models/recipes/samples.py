"""Seeded samples for models that come without: made-up sounds, pictures, words and molecules.

They are not the data that the models were trained on, but near enough in range and structure that
every part of a model works on numbers of the size that it is meant for.
"""

__all__ = ["SAMPLES", "picture", "sound"]

import functools
from collections.abc import Callable, Mapping

import numpy as np

from .built import Array, Sample, normal

Maker = Callable[[np.random.Generator, int], Sample]

_RATE = 16000


def sound(rng: np.random.Generator, *shape: int, rate: int = _RATE) -> Array:
    """Something like a voice: harmonics of a gliding pitch, louder and softer, with some noise."""
    count = int(np.prod(shape))
    time = np.arange(count) / rate
    pitch = 110 + 90 * rng.random() + 25 * np.sin(2 * np.pi * 2.5 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    voice = sum(np.sin(order * phase) / order for order in range(1, 12))
    loud = 0.3 + 0.3 * np.sin(2 * np.pi * 3 * time + 6 * rng.random())
    return (
        (0.4 * loud * voice + 0.01 * rng.standard_normal(count)).reshape(shape).astype(np.float32)
    )


def picture(rng: np.random.Generator, *shape: int) -> Array:
    """Something like a photograph: soft colours with dark bars on them, from -1 to 1."""
    *_, height, width = shape
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    waves = [
        np.sin(2 * np.pi * (a * x + b * y) + c)
        for a, b, c in 3 * rng.random((int(np.prod(shape[:-2])), 3))
    ]
    image = 0.5 * np.stack(waves).reshape(shape)
    for _ in range(12):
        top, left = rng.integers(0, height), rng.integers(0, width)
        tall, wide = max(height // 10, 2), max(width // 25, 2)
        image[..., top : top + tall, left : left + wide] = -0.95
    return np.clip(image + 0.03 * rng.standard_normal(shape), -1, 1).astype(np.float32)


_DIGITS = (31599, 11415, 29671, 29647, 23497, 31183, 31215, 29257, 31727, 31695)
"""Each digit on three columns and five rows, a bit a point, the top left one first."""


def _text(rng: np.random.Generator, *shape: int) -> Array:
    """Dark digits on a light page, in lines of 32 points each."""
    *_, height, width = shape
    page = np.full((height, width), 0.8)
    for top in range(8, height - 24, 40):
        for left in range(8, width - 16, 20):
            bits = np.array([int(bit) for bit in f"{_DIGITS[rng.integers(10)]:015b}"])
            glyph = np.kron(bits.reshape(5, 3), np.ones((6, 4)))
            page[top : top + 30, left : left + 12] -= 1.6 * glyph[: height - top, : width - left]
    noise = 0.02 * rng.standard_normal(shape)
    return np.clip(np.broadcast_to(page, shape) + noise, -1, 1).astype(np.float32)


def _silero(rng: np.random.Generator, _k: int, *, rate: bool) -> Sample:
    sample = {"input": sound(rng, 1, 576), "state": normal(rng, 2, 1, 128, scale=0.5)}
    return {**sample, "sr": np.array(_RATE)} if rate else sample


def _silero_sequence(rng: np.random.Generator, k: int) -> Sample:
    zeros = np.zeros((1, 1, 128), np.float32)
    return {"input": sound(rng, 30 - 20 * k, 576), "h": zeros, "c": zeros}


def _page(*shapes: tuple[int, ...]) -> Maker:
    return lambda rng, k: {"x": _text(rng, *shapes[k % len(shapes)])}


def _one_picture(name: str, *shape: int) -> Maker:
    return lambda rng, _k: {name: picture(rng, *shape)}


_TEXT = b"def area(width, height):\n    '''Of a rectangle.'''\n    return width * height\n\n\n"


def _magika(rng: np.random.Generator, k: int) -> Sample:
    """The first and the last 1024 bytes of a file: of a program, and of files of random bytes."""
    text = np.resize(np.frombuffer(_TEXT, np.uint8), 2048).astype(np.int32)
    noise = rng.integers(0, 256, (3, 2048), dtype=np.int32)
    return {"bytes": text[None] if k == 0 else np.concatenate([text[None], noise])}


def _minilm(rng: np.random.Generator, k: int) -> Sample:
    """Two sentences of BERT's, the second one shorter: 101 begins, 102 ends, 0 fills up."""
    ids = rng.integers(1996, 12000, (2, 16 + k))
    ids[:, 0], ids[:, -1] = 101, 102
    mask = np.ones_like(ids)
    ids[1, 9:], mask[1, 9:] = 0, 0
    ids[1, 8] = 102
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def _notes(rng: np.random.Generator, _k: int) -> Sample:
    """Two seconds of music at 22050 Hz."""
    return {"serving_default_input_2:0": sound(rng, 1, 43844, 1, rate=22050)}


def _painn(rng: np.random.Generator, k: int) -> Sample:
    """A chain of atoms at random places, with an edge between all that are near one another."""
    atoms, residues = 60 + 20 * k, 6 + k
    position = normal(rng, atoms, 3, scale=3.5)
    distance = np.linalg.norm(position[:, None] - position[None], axis=-1)
    ends = np.argwhere((distance < 4) & (distance > 0)).T
    first, second = ends
    residue = np.arange(atoms) * residues // atoms
    apart = np.abs(residue[first] - residue[second])
    zeros = np.zeros(len(first), np.float32)
    return {
        "element": rng.integers(0, 6, atoms),
        "amino_acid": rng.integers(0, 20, residues)[residue],
        "atom_role": rng.integers(0, 11, atoms),
        "bfactor": np.zeros(atoms, np.float32),
        "edge_index": ends,
        "edge_dist": distance[first, second].astype(np.float32),
        "seq_sep": apart,
        "same_residue": (apart == 0).astype(np.float32),
        "target_indices": rng.integers(0, atoms, (residues, 6)),
        "target_mask": np.ones((residues, 6), np.bool_),
        "residue_types": rng.integers(0, 20, residues),
        "residue_geometry": np.clip(normal(rng, residues, 52, scale=0.5), -1, 1),
        "target_environment": rng.random((residues, 6, 15), np.float32),
        "temperature_feature": np.zeros((residues, 1), np.float32),
        "target_atom_rsasa": np.zeros((residues, 6), np.float32),
        "pos": position,
        "node_normal": np.zeros((atoms, 3), np.float32),
        "is_hbond": zeros,
        "hb_cos": zeros,
    }


def _numbers(name: str, *shape: int) -> Maker:
    return lambda rng, _k: {name: normal(rng, *shape)}


_LARGE = (1, 3, 224, 224)

SAMPLES: Mapping[str, Maker] = {
    "basic_pitch": _notes,
    "caustic_painn": _painn,
    "light_bvlc_alexnet": _one_picture("data_0", *_LARGE),
    "light_densenet121": _one_picture("data_0", *_LARGE),
    "light_inception_v1": _one_picture("data_0", *_LARGE),
    "light_inception_v2": _one_picture("data_0", *_LARGE),
    "light_resnet50": _one_picture("gpu_0/data_0", *_LARGE),
    "light_shufflenet": _one_picture("gpu_0/data_0", *_LARGE),
    "light_squeezenet": _one_picture("data_0", *_LARGE),
    "light_vgg19": _one_picture("data_0", *_LARGE),
    "light_zfnet512": _one_picture("gpu_0/data_0", *_LARGE),
    "magika_v3_3": _magika,
    "minilm_int8": _minilm,
    "ortds_logreg_iris": _numbers("float_input", 3, 2),
    "ortds_mul_1": _numbers("X", 3, 2),
    "ortds_sigmoid": _numbers("x", 3, 4, 5),
    "ppocr_cls_v2": _page((1, 3, 48, 192)),
    "ppocrv4_det": _page((1, 3, 320, 480), (1, 3, 256, 256)),
    "ppocrv4_rec": _page((1, 3, 48, 320), (1, 3, 48, 256)),
    "silero_vad": functools.partial(_silero, rate=True),
    "silero_vad_half": functools.partial(_silero, rate=False),
    "silero_vad_ifless": functools.partial(_silero, rate=True),
    "silero_vad_op15": functools.partial(_silero, rate=True),
    "silero_vad_openvino": functools.partial(_silero, rate=False),
    "silero_vad_sequence": _silero_sequence,
}
"""By model: what makes its sample number k from a generator of its own."""
