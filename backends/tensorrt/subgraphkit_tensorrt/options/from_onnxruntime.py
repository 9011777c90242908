"""The options of ONNX Runtime's TensorRT provider, translated into ours.

    translated = from_onnxruntime({"trt_fp16_enable": True, "trt_engine_cache_enable": True})
    session = InferenceSession(
        "model.onnx", "tensorrt", options={"tensorrt": translated.options}, **translated.settings
    )

Values may be given as ONNX Runtime takes them: ``True``, ``1``, ``"1"`` and ``"True"`` mean the
same. An option at ONNX Runtime's default says nothing and is left out.

Source: the provider options that ONNX Runtime documents for its TensorRT execution provider.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from subgraphkit.backend import did_you_mean, options_of, read_bool, read_int
from subgraphkit.errors import OptionError
from subgraphkit_tensorrt.backend_options import Options

__all__ = ["Translation", "from_onnxruntime", "in_our_words"]

_PREFIX: Final = "trt_"
_SHIM: Final = (
    "All of ONNX Runtime's options at once: subgraphkit_tensorrt.from_onnxruntime(provider_options)"
)
_Step = Callable[["Translation", str, Any], None]


@dataclass(slots=True)
class Translation:
    """The translated options, with notes on each.

    Attributes:
        options: Values of our options, by name.
        settings: Settings of a session rather than of this backend, by name.
        notes: What was translated into what, and what needs no option here; one sentence each.
    """

    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def put(self, given: str, name: str, value: Any) -> None:
        """Set one of our options."""
        (option,) = (one for one in options_of(Options) if one.name == name)
        self.options[name] = option.read(value, f"ONNX Runtime's {given}", "tensorrt")
        self.notes.append(f"{given} is {name}={value}")


def from_onnxruntime(provider_options: Mapping[str, Any]) -> Translation:
    """Translate the options of ONNX Runtime's TensorRT provider.

    Args:
        provider_options: Values by the names of ONNX Runtime.

    Returns:
        Our options, and what was done.

    Raises:
        OptionError: An option is unknown, or does something that has no equivalent here (SGK164);
            or its value cannot be read (SGK111, SGK112).
    """
    for name in provider_options:
        if name not in _STEPS:
            guess = did_you_mean(name, _STEPS)
            raise _error(name, f"ONNX Runtime's TensorRT provider has no option {name!r}{guess}")
    translation = Translation()
    for name, step in _STEPS.items():  # in our order: some build on others
        if name in provider_options:
            try:
                step(translation, name, provider_options[name])
            except ValueError as error:
                if isinstance(error, OptionError):
                    raise
                text = f"{name} is {provider_options[name]!r}, expected {error}"
                raise _error(name, text) from None
    return translation


def in_our_words(name: str, value: Any) -> str:
    """Say what to write for one option of ONNX Runtime; empty if it has none of that name.

    Names that start as its options do are answered even if it has none of them.
    """
    if name not in _STEPS and not name.startswith(_PREFIX):
        return ""
    try:
        notes = from_onnxruntime({name: value}).notes or [f"{name}={value} says nothing here"]
    except OptionError as error:
        notes = [error.message, *(error.hint.splitlines() if name in _STEPS else ())]
    return "\n".join([*notes, _SHIM])


def _error(
    name: str, message: str, hint: str = "Correct the option, or leave it out."
) -> OptionError:
    return OptionError("SGK164", message, hint=hint, backend="tensorrt", option=name)


def _number(ours: str, silent: int | None = None) -> _Step:
    """A number; the value that is ONNX Runtime's default, if given here, says nothing."""

    def step(translation: Translation, name: str, value: Any) -> None:
        number = read_int(value)
        if number != silent:
            translation.put(name, ours, number)

    return step


def _switch(**ours: Any) -> _Step:
    """A switch that is off by default, and what it means if it is on."""

    def step(translation: Translation, name: str, value: Any) -> None:
        if _is_on(value):
            for option, meaning in ours.items():
                translation.put(name, option, meaning)

    return step


def _words(ours: str) -> _Step:
    """Names separated by commas or semicolons; with a sign before them, those that are on."""

    def step(translation: Translation, name: str, value: Any) -> None:
        words = [word.strip() for word in re.split("[,;]", str(value)) if word.strip()]
        off = [word for word in words if word.startswith("-")]
        if off:
            text = f"{name} switches {', '.join(off)} off; here, name those that are to be on"
            raise _error(name, text, f"Set {ours} of backend 'tensorrt'.")
        if words:
            translation.put(name, ours, tuple(word.removeprefix("+") for word in words))

    return step


def _path(ours: str) -> _Step:
    def step(translation: Translation, name: str, value: Any) -> None:
        if value:
            translation.put(name, ours, value)

    return step


def _engine_cache(translation: Translation, name: str, value: Any) -> None:
    """ONNX Runtime keeps engines if asked to, subgraphkit unless asked not to."""
    translation.settings["cache"] = _is_on(value)
    translation.notes.append(f"{name} is the setting cache={_is_on(value)} of the session")


def _engine_folder(translation: Translation, name: str, value: Any) -> None:
    if value:
        translation.settings["cache_dir"] = str(value)
        translation.notes.append(f"{name} is the setting cache_dir={value} of the session")


def _moot(why: str) -> _Step:
    """Something that needs no option here."""

    def step(translation: Translation, name: str, value: Any) -> None:
        if not _says_nothing(value):
            translation.notes.append(f"{name} is not needed: {why}")

    return step


def _without_equivalent(hint: str) -> _Step:
    def step(translation: Translation, name: str, value: Any) -> None:
        del translation
        if not _says_nothing(value):
            text = f"{name}={value!r} of ONNX Runtime has no equivalent in backend 'tensorrt'"
            raise _error(name, text, hint)

    return step


def _is_on(value: Any) -> bool:
    """Read a switch; numbers are taken for the words they are in ONNX Runtime."""
    return read_bool(str(value) if isinstance(value, int) else value)


def _says_nothing(value: Any) -> bool:
    return str(value).strip().lower() in {"", "0", "false", "none"}


def _half(kind: str) -> _Step:
    def step(translation: Translation, name: str, value: Any) -> None:
        if not _is_on(value):
            return
        if "precision" in translation.options:
            text = "trt_fp16_enable and trt_bf16_enable are both set; here, one type is chosen"
            raise _error(name, text, "Keep one of them.")
        translation.put(name, "precision", kind)

    return step


def _int8(translation: Translation, name: str, value: Any) -> None:
    """What is not quantized has the type that was asked for before, or stays float32."""
    if _is_on(value):
        rest = translation.options.get("precision", "fp32")
        translation.put(name, "high_precision", rest)
        translation.put(name, "precision", "int8")


def _shapes(ours: str) -> _Step:
    """Text such as ``x:1x3x224x224,mask:1x128``."""

    def step(translation: Translation, name: str, value: Any) -> None:
        shapes = {}
        for item in filter(None, str(value).split(",")):
            found = re.fullmatch(r"\s*(.+):(\d+(?:x\d+)*)\s*", item)
            if found is None:
                raise _error(name, f"{name} has {item!r}, expected a shape such as x:1x3x224x224")
            shapes[found[1]] = tuple(int(dim) for dim in found[2].split("x"))
        if shapes:
            translation.put(name, ours, shapes)

    return step


_WEIGHTS: Final = _moot("weights for a stripped plan are those of the session's model")
_CONTEXT: Final = _without_equivalent(
    "Build ahead with `subgraphkit build`; engines are found in the cache."
)
_EXPERT: Final = _without_equivalent("TensorRT chooses by itself; remove the option.")
_NORMALIZATION: Final = ("LayerNormalization", "Pow", "ReduceMean")

_STEPS: Final[Mapping[str, _Step]] = MappingProxyType(
    {
        "device_id": _number("device"),
        "has_user_compute_stream": _moot("a stream that is given is used"),
        "user_compute_stream": _number("stream", silent=0),
        # which nodes
        "trt_min_subgraph_size": _number("min_subgraph_nodes"),
        "trt_max_partition_iterations": _number("max_query_rounds"),
        "trt_op_types_to_exclude": _words("exclude_ops"),
        "trt_extra_plugin_lib_paths": _words("plugin_libraries"),
        # precision
        "trt_fp16_enable": _half("fp16"),
        "trt_bf16_enable": _half("bf16"),
        "trt_int8_enable": _int8,
        "trt_int8_calibration_table_name": _path("calibration"),
        "trt_int8_use_native_calibration_table": _moot("a calibration file tells its own kind"),
        "trt_layer_norm_fp32_fallback": _switch(keep_fp32=_NORMALIZATION),
        # the builder
        "trt_max_workspace_size": _number("workspace_limit", silent=0),
        "trt_builder_optimization_level": _number("optimization_level", silent=3),
        "trt_auxiliary_streams": _number("max_aux_streams", silent=-1),
        "trt_sparsity_enable": _switch(sparse_weights=True),
        "trt_tactic_sources": _EXPERT,
        "trt_preview_features": _EXPERT,
        "trt_build_heuristics_enable": _without_equivalent(
            "TensorRT has no such heuristics since version 10; lower optimization_level instead."
        ),
        "trt_force_sequential_engine_build": _moot("engines for one GPU are built in turn"),
        "trt_detailed_build_log": _moot(
            "the logger 'subgraphkit.tensorrt' tells it at level DEBUG"
        ),
        "trt_dla_enable": _without_equivalent(
            "Boards with an accelerator bring a Python older than this backend needs; remove it."
        ),
        "trt_dla_core": _moot("it says nothing without trt_dla_enable"),
        # shapes
        "trt_profile_min_shapes": _shapes("min_shapes"),
        "trt_profile_opt_shapes": _shapes("opt_shapes"),
        "trt_profile_max_shapes": _shapes("max_shapes"),
        # what is kept
        "trt_engine_cache_enable": _engine_cache,
        "trt_engine_cache_path": _engine_folder,
        "trt_engine_cache_prefix": _moot("engines are found by what they hold"),
        "trt_engine_hw_compatible": _switch(hardware_compatible="ampere_plus"),
        "trt_engine_decryption_enable": _without_equivalent(
            "Keep engines on an encrypted file system; they are readable by their owner alone."
        ),
        "trt_engine_decryption_lib_path": _without_equivalent("See trt_engine_decryption_enable."),
        "trt_timing_cache_enable": _moot("timings are kept unless timing_cache=False"),
        "trt_timing_cache_path": _moot("timings are kept in the session's cache directory"),
        "trt_force_timing_cache": _without_equivalent(
            "Timings of another GPU or release are left alone; remove the option."
        ),
        "trt_weight_stripped_engine_enable": _switch(strip_weights=True),
        "trt_onnx_model_folder_path": _WEIGHTS,
        "trt_onnx_bytestream": _WEIGHTS,
        "trt_onnx_bytestream_size": _WEIGHTS,
        "trt_external_data_bytestream": _WEIGHTS,
        "trt_external_data_bytestream_size": _WEIGHTS,
        "trt_load_user_initializer": _moot("weights are never copied into the parser's model"),
        "trt_dump_ep_context_model": _CONTEXT,
        "trt_ep_context_file_path": _CONTEXT,
        "trt_ep_context_embed_mode": _CONTEXT,
        "trt_dump_subgraphs": _without_equivalent("Write them with: subgraphkit plan MODEL"),
        # running
        "trt_context_memory_sharing_enable": _switch(context_memory="shared"),
        "trt_cuda_graph_enable": _switch(cuda_graphs="auto"),
    }
)
"""By name in ONNX Runtime, what to do with the value; those that build on others come after."""
