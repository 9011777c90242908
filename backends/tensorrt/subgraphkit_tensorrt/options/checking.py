"""Whether the library at hand can do what the options ask, and whether they agree."""

import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from subgraphkit.errors import OptionError
from subgraphkit_tensorrt.library.capabilities import Capabilities, path_of
from subgraphkit_tensorrt.options.entry import Entry
from subgraphkit_tensorrt.options.ranges import contradiction, read_buckets
from subgraphkit_tensorrt.options.table import TABLE

__all__ = ["check_agreement", "check_library"]

_PATTERNS: Final = ("exclude_nodes", "keep_fp32")
_NEEDED: Final = (
    # (option, its value or None for any but the default, the option it is nothing without, value)
    ("gpu_fallback", True, "dla_core", None),
    ("weight_streaming_budget", None, "weight_streaming", True),
    ("lean_runtime", None, "version_compatible", True),
    ("precision", "int8", "calibration", None),
    ("high_precision", None, "precision", "int8"),
    ("target_platform", "windows", "build_only", True),
)


def check_library(options: Mapping[str, Any], capabilities: Capabilities) -> None:
    """Make sure that the library can honour every option that is not left at its default.

    Args:
        options: A value for every option of the backend.
        capabilities: What the library can do.

    Raises:
        OptionError: It cannot (SGK160).
    """
    for name, entry in TABLE.items():
        value = options[name]
        if value == entry.option.default:
            continue
        missing = _missing(entry, value, capabilities)
        if missing:
            raise _cannot(name, value, missing, capabilities)


def check_agreement(options: Mapping[str, Any]) -> None:
    """Make sure that options do not contradict one another.

    Args:
        options: A value for every option of the backend.

    Raises:
        OptionError: They do (SGK161).
    """
    read_buckets(options)
    for name, value, other, needed in _NEEDED:
        if name == "target_platform" and sys.platform == "win32":
            continue  # they were built elsewhere, and run here
        if _is_set(options, name, value) and not _is_set(options, other, needed):
            wanted = f"{other}={needed}" if needed is not None else other
            raise contradiction(
                f"option {name}={options[name]} of backend 'tensorrt' needs {wanted}, which is "
                "not set",
                f"Set {wanted} as well, or leave {name} out.",
                name,
                other,
            )
    if options["build_at"] == "first_run" and not options["allow_runtime_build"]:
        raise contradiction(
            "build_at=first_run and allow_runtime_build=False leave backend 'tensorrt' no time to "
            "build",
            "Build at bind, with the shapes or their ranges given, or allow building at run time.",
            "build_at",
            "allow_runtime_build",
        )
    for name in _PATTERNS:
        _check_patterns(name, options[name])


def _is_set(options: Mapping[str, Any], name: str, value: Any) -> bool:
    if value is None:
        return bool(options[name] != TABLE[name].option.default)
    return bool(options[name] == value)


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


def _missing(entry: Entry, value: Any, capabilities: Capabilities) -> str:
    """Return the name in TensorRT of what an option needs and the library lacks."""
    # A mapping of ranges is no key, and an option that takes one needs the same for all of them.
    of_value = entry.needs_of.get(value) if entry.needs_of else None
    for need in (*entry.needs, *filter(None, [of_value])):
        field, _, member = need.partition(".")
        found = getattr(capabilities, field)
        if not (member in found if member else found):
            path = path_of(field)
            return f"{path}.{member}" if member else path or field.replace("_", " ")
    if entry.values_in:
        allowed = getattr(capabilities, entry.values_in)
        lacking = [word for word in value if word not in allowed]
        if lacking:
            return f"{path_of(entry.values_in)}.{lacking[0]}"
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
