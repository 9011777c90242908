"""Every message about choosing and loading backends, rendered with fixed facts."""

from subgraphkit.backend import messages as of_options
from subgraphkit.backend.plugin_api import PLUGIN_API
from subgraphkit.configuration import messages as of_settings
from subgraphkit.errors import SubgraphkitError
from subgraphkit.finding import messages as of_plugins

ENV = "environment variable SUBGRAPH_BACKEND='tensorrt,numpy'"
PROVIDER = "subgraphkit-tensorrt 0.1.2"
VALUE = "subgraphkit_tensorrt:TensorRTBackend"
LIBRARY = "ImportError: libnvinfer.so.10: cannot open shared object file: No such file or directory"
NEWER = (PLUGIN_API[0], PLUGIN_API[1] + 3)
OLDER = (PLUGIN_API[0] - 1, 9)

MESSAGES: dict[str, SubgraphkitError] = {
    "SGK101_missing": of_plugins.missing(
        "tensorrt", ENV, 'pip install "subgraphkit[tensorrt]"', ["numpy", "onnxruntime"]
    ),
    "SGK101_missing_with_nothing_installed": of_plugins.missing(
        "numpy", "the default", "pip install subgraphkit-numpy", []
    ),
    "SGK102_unknown": of_plugins.unknown("tensortr", ENV, ["numpy", "tensorrt"], ["numpy"]),
    "SGK102_unknown_and_unlike_any": of_plugins.unknown("zzz", ENV, ["numpy"], ["numpy"]),
    "SGK102_unknown_distribution": of_plugins.unknown_distribution(
        "fast", "acme_fast", ["acme-fast", "subgraphkit-fast"], ENV
    ),
    "SGK103_load_failed": of_plugins.load_failed(
        "tensorrt",
        PROVIDER,
        f"subgraphkit.backends: tensorrt = {VALUE}",
        LIBRARY,
        ["module 'tensorrt' is not installed: pip install 'subgraphkit-tensorrt[cu12]'"],
    ),
    "SGK104_unavailable": of_options.unavailable(
        "tensorrt",
        ["no CUDA device is visible (driver 550.54, CUDA_VISIBLE_DEVICES='')"],
        "Unset CUDA_VISIBLE_DEVICES.",
    ),
    "SGK104_unavailable_without_a_reason": of_options.unavailable("tensorrt", []),
    "SGK105_incompatible_before_import": of_plugins.incompatible(
        "tensorrt", PROVIDER, NEWER, imported=False
    ),
    "SGK105_incompatible_after_import": of_plugins.incompatible(
        "tensorrt", PROVIDER, OLDER, imported=True
    ),
    "SGK106_conflict": of_plugins.conflict(
        "fast",
        [("subgraphkit-fast 0.2", "subgraphkit_fast:Fast"), ("acme-fast 1.0", "acme_fast:Backend")],
    ),
    "SGK107_bad_selection": of_settings.bad_selection(
        "environment variable SUBGRAPH_BACKEND='tensorrt;numpy'",
        "expected NAME[:key=value...] separated by commas, got 'tensorrt;numpy' at position 8; "
        "did you mean ','?",
    ),
    "SGK108_bad_setting": of_settings.bad_setting(
        "environment variable SUBGRAPH_STRICT='maybe'",
        "a boolean; use 1/0, true/false, yes/no or on/off",
    ),
    "SGK109_bad_file": of_settings.bad_file("subgraphkit.toml", 3, "Expected '=' after a key"),
    "SGK109_bad_file_without_a_line": of_settings.bad_file(
        "subgraphkit.toml", None, "PermissionError: [Errno 13] Permission denied"
    ),
    "SGK110_unknown_option": of_options.unknown_option(
        "tensorrt", "precison", ENV, ["precision", "workspace", "device", "timing_cache"]
    ),
    "SGK110_foreign_option": of_options.unknown_option(
        "tensorrt", "trt_fp16_enable", ENV, ["precision"], "trt_fp16_enable is precision=fp16"
    ),
    "SGK111_bad_option_type": of_options.bad_option_type(
        "tensorrt", "workspace", f"'lots' (given by {ENV})", "a size such as 4096, 500MB or 2GiB"
    ),
    "SGK112_option_out_of_range": of_options.option_out_of_range(
        "tensorrt", "workspace", f"'1KiB' (given by {ENV})", "at least 16777216 bytes"
    ),
    "SGK113_unused_options": of_plugins.unused_options(
        "tensorrtt",
        [("precision", "environment variable SUBGRAPH_TENSORRTT_PRECISION='fp16'")],
        ["tensorrt", "numpy"],
    ),
    "SGK113_unused_options_of_an_instance": of_plugins.unused_options(
        "tensorrt",
        [("precision", "argument options={'tensorrt': {'precision': 'fp16'}}")],
        ["tensorrt"],
    ),
    "SGK114_unknown_setting": of_settings.unknown_setting(
        ["SUBGRAPH_BACKENDS", "SUBGRAPH_ZZZ"],
        "the environment",
        ["SUBGRAPH_BACKEND", "SUBGRAPH_STRICT"],
    ),
    "SGK115_bad_registration": of_plugins.bad_registration(
        "tensorrt", f"the class {VALUE} of {PROVIDER} calls itself 'trt'"
    ),
    "SGK116_bad_manifest": of_options.bad_manifest(
        "tensorrt", "subgraphkit-backend.toml", 'api = 1, expected "MAJOR.MINOR"'
    ),
    "SGK117_blocked": of_plugins.blocked_backend(
        "tensorrt", ENV, "environment variable SUBGRAPH_BLOCK='tensorrt'"
    ),
    "SGK126_untrusted_file": of_settings.untrusted_file(
        "options={'tensorrt': {'modules': ['evil']}} in /srv/a/subgraphkit.toml, line 2",
        "/srv/a",
        "/etc/ann/subgraphkit/config.toml",
    ),
    "SGK126_untrusted_spec": of_settings.untrusted_spec("option tensorrt.modules=['evil']"),
    "SGK127_forked": of_plugins.forked_library("openvino"),
    "SGK128_unreadable_metadata": of_settings.unreadable_metadata(
        "/site-packages/acme-1.0.dist-info",
        "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xe9 in position 8: invalid "
        "continuation byte",
    ),
    "SGK129_shadowed": of_plugins.shadowed_backend(
        "numpy", "acme-numpy 1.0", "subgraphkit-numpy 0.1.0"
    ),
    "SGK320_harmful": of_plugins.harmful(
        "fast", "SGK320", "backend 'fast' took the process down: signal SIGABRT"
    ),
    "SGK321_extension_harmful": of_plugins.extension_harmful(
        "'tracer' (acme-tracer 1.0, acme_tracer)",
        "tracer",
        "SGK321",
        "extension 'tracer' did not return within 30 s",
    ),
    "SGK224_wrong_edit": of_plugins.wrong_edit(
        "fuse", "m.onnx", ["#0 Sigmoid", "#1 Mul"], "value 'y' would be int64[2] and was float32[2]"
    ),
    "SGK223_wrong_types": of_plugins.wrong_types(
        "acme",
        "#3 Halve",
        "com.acme::Halve",
        "returned float32[N,4], where the model declares float32[N]",
    ),
    "SGK190_extension_failed": of_plugins.extension_failed(
        "'tracer' (acme-tracer 1.0, acme_tracer)", "subgraphkit_compiled", "ValueError: no space"
    ),
    "SGK191_unknown_hook": of_plugins.unknown_hook(
        "'tracer' (acme-tracer 1.0, acme_tracer)",
        "subgraphkit_compild",
        ["subgraphkit_compiled", "subgraphkit_plan"],
    ),
    "SGK191_unknown_backend_hook": of_plugins.unknown_backend_hook(
        "tensorrt", PROVIDER, "subgraphkit_prob", ["subgraphkit_backend", "subgraphkit_probe"]
    ),
}
