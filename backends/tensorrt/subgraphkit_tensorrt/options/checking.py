"""Checks of the options: against the library at hand, and against one another."""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from subgraphkit.backend import options_of
from subgraphkit.errors import OptionError
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.library.capabilities import Capabilities, path_of
from subgraphkit_tensorrt.options.ranges import contradiction, read_buckets

__all__ = ["NEEDS", "check_agreement", "check_library"]

NEEDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "plugin_libraries": ("plugins",),
        "precision=fp8": ("data_types.FP8",),
        "sparse_weights": ("builder_flags.SPARSE_WEIGHTS",),
        "tiling_level": ("tiling_optimization_level",),
        "l2_limit_for_tiling": ("l2_limit_for_tiling",),
        "max_tactics": ("max_num_tactics",),
        "strict_nans": ("builder_flags.STRICT_NANS",),
        "distributive_independence": ("builder_flags.DISTRIBUTIVE_INDEPENDENCE",),
        "editable_timing_cache": ("editable_timing_cache", "keeps_timings"),
        "refittable": ("refitter", "builder_flags.REFIT"),
        "strip_weights": ("refitter", "builder_flags.STRIP_PLAN"),
        "share_identical": ("refitter", "builder_flags.REFIT"),
        "weight_streaming": ("weight_streaming", "builder_flags.WEIGHT_STREAMING"),
        "version_compatible": ("builder_flags.VERSION_COMPATIBLE",),
        "exclude_lean_runtime": ("builder_flags.EXCLUDE_LEAN_RUNTIME",),
        "hardware_compatible": ("hardware_classes",),
        "hardware_compatible=same_cc": ("hardware_levels.SAME_COMPUTE_CAPABILITY",),
        "hardware_compatible=ampere_plus": ("hardware_levels.AMPERE_PLUS",),
        "compute_capabilities": ("compute_capabilities",),
        "persistent_l2_limit": ("persistent_cache_limit",),
        "weight_streaming_budget": ("weight_streaming",),
        "kernel_specialization": ("kernel_specialization_strategy",),
        "allow_host_code": ("host_code_allowed",),
        "lean_runtime": ("load_runtime",),
    }
)
"""What the library must be able to do for an option that is not left at its default, or for one of
its values: fields of ``Capabilities``; ``"builder_flags.REFIT"`` is a name in one of its sets."""
_DEFAULTS: Final = Options()
_NEEDED: Final = (
    # (option, its value or None for any but the default, the option it is nothing without, value)
    ("weight_streaming_budget", None, "weight_streaming", True),
    ("lean_runtime", None, "version_compatible", True),
    ("precision", "int8", "calibration", None),
    ("precision", "fp8", "calibration", None),
    ("high_precision", None, "calibration", None),
)


def check_library(options: Options, capabilities: Capabilities) -> None:
    """Make sure that the library can honour every option that is not left at its default.

    Args:
        options: The options of the backend.
        capabilities: What the library can do.

    Raises:
        OptionError: It cannot (SGK160).
    """
    for option in options_of(Options):
        value = getattr(options, option.name)
        if value == option.default:
            continue
        missing = _missing(option.name, value, capabilities)
        if missing:
            raise _cannot(option.name, value, missing, capabilities)


def check_agreement(options: Options) -> None:
    """Make sure that options do not contradict one another.

    Args:
        options: The options of the backend.

    Raises:
        OptionError: They do (SGK161).
    """
    read_buckets(options)
    for name, value, other, needed in _NEEDED:
        if _is_set(options, name, value) and not _is_set(options, other, needed):
            wanted = f"{other}={needed}" if needed is not None else other
            asked = f"{name}={getattr(options, name)}"
            raise contradiction(
                f"option {asked} of backend 'tensorrt' needs {wanted}, which is not set",
                f"Set {wanted} as well, or leave {name} out.",
                name,
                other,
            )
    if options.build_at == "first_run" and not options.allow_runtime_build:
        raise contradiction(
            "build_at=first_run and allow_runtime_build=False leave backend 'tensorrt' no time to "
            "build",
            "Build at bind, with the shapes or their ranges given, or allow building at run time.",
            "build_at",
            "allow_runtime_build",
        )
    _check_patterns("exclude_nodes", options.exclude_nodes)
    _check_patterns("keep_fp32", options.keep_fp32)


def _is_set(options: Options, name: str, value: Any) -> bool:
    given = getattr(options, name)
    return bool(given == value if value is not None else given != getattr(_DEFAULTS, name))


def _check_patterns(name: str, patterns: Iterable[str]) -> None:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise contradiction(
                f"option {name!r} of backend 'tensorrt' has {pattern!r}, which is no regular "
                f"expression: {error}",
                "Write a backslash before a character that is to mean itself.",
                name,
            ) from None


def _missing(name: str, value: Any, capabilities: Capabilities) -> str:
    """Return the name in TensorRT of what an option needs and the library lacks."""
    for need in (*NEEDS.get(name, ()), *NEEDS.get(f"{name}={value}", ())):
        field, _, member = need.partition(".")
        found = getattr(capabilities, field)
        if not (member in found if member else found):
            path = path_of(field)
            return f"{path}.{member}" if member else path or field.replace("_", " ")
    return ""


def _cannot(name: str, value: Any, missing: str, capabilities: Capabilities) -> OptionError:
    library = f"{capabilities.flavour} {capabilities.version}".strip()
    return OptionError(
        "SGK160",
        f"option {name!r} of backend 'tensorrt' is {value!r}, which {library} cannot honour: it "
        f"has no {missing}",
        hint="Leave the option out, or use a library that has it.",
        backend="tensorrt",
        option=name,
        missing=missing,
    )
