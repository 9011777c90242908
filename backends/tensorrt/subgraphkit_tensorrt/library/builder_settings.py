"""Settings of the builder by TensorRT's own names, as the option ``builder`` gives them.

A name is a property of ``IBuilderConfig``, or a member of ``BuilderFlag``, ``MemoryPoolType`` or
``PreviewFeature``. They are looked up on the library at hand, so that a name of another release is
an error that lists what there is.
"""

from collections.abc import Mapping
from typing import Any, Final

from subgraphkit.backend import OptionMapping, did_you_mean
from subgraphkit.errors import CompileError, OptionError
from subgraphkit_tensorrt.library.logger import listening, tail
from subgraphkit_tensorrt.option_rules import unusable

_PROPERTY: Final = "IBuilderConfig"
_FLAG: Final = "BuilderFlag"
_POOL: Final = "MemoryPoolType"
_FEATURE: Final = "PreviewFeature"

_OPTIONS: Final[Mapping[str, str]] = {
    "REFIT": "refittable",
    "RUNTIME_ACTIVATION_RESIZE_10_10": "dims",
    "TF32": "tf32",
    "WEIGHT_STREAMING": "weight_streaming",
    "WORKSPACE": "workspace_limit",
    "builder_optimization_level": "optimization_level",
}
"""By name in TensorRT, the option that sets it: more follows from it than one setting."""
_KEPT: Final = frozenset(
    {"REFIT_IDENTICAL", "REFIT_INDIVIDUAL", "STRIP_PLAN", "flags", "num_compute_capabilities",
     "plugins_to_serialize", "profile_stream", "progress_monitor"}
)  # fmt: skip
"""What the backend decides, or what takes an object, an address or weights that come later."""
Setting = tuple[str, str, Any]
"""The class that has a name, the name, and a value as the library takes it."""


def read_settings(trt: Any, given: OptionMapping) -> list[Setting]:
    """Read the option ``builder``; OptionError (SGK111, SGK160, SGK161) if it cannot be."""
    known = _names(trt) if given else {}
    return [_setting(trt, known, name, value) for name, value in given.items()]


def apply_settings(config: Any, trt: Any, settings: list[Setting]) -> None:
    """Put settings into a configuration; CompileError (SGK173) if one does not take."""
    for owner, name, value in settings:
        if owner == _PROPERTY:
            put(config, name, value, f"builder={name}")
            continue
        member = getattr(trt, owner).__members__[name]
        if owner == _POOL:
            config.set_memory_pool_limit(member, value)
        elif owner == _FEATURE:
            config.set_preview_feature(member, value)
        elif value:
            config.set_flag(member)
        else:
            config.clear_flag(member)


def put(config: Any, attribute: str, value: Any, option: str) -> None:
    """Set a property; CompileError (SGK173) if it did not take, as TensorRT clamps or ignores."""
    with listening() as lines:
        try:
            setattr(config, attribute, value)
        except TypeError as error:
            raise _setting_error(
                f"this library does not take {option}={value}", " ".join(str(error).split())
            ) from error
    found = getattr(config, attribute)
    if found != value or any("unsupported" in line for line in lines):
        raise _setting_error(
            f"this library does not take {option}={getattr(value, 'name', value)}",
            f"It said:\n{tail(lines)}" if lines else f"It made {found} of it.",
        )


def _setting_error(problem: str, hint: str) -> CompileError:
    return CompileError("SGK173", f"backend 'tensorrt': {problem}", backend="tensorrt", hint=hint)


def _names(trt: Any) -> dict[str, str]:
    """Return the names there are, each with the class that has it."""
    found: dict[str, str] = {}
    for owner in (_FLAG, _POOL, _FEATURE):
        found |= dict.fromkeys(getattr(getattr(trt, owner, None), "__members__", ()), owner)
    properties = vars(trt.IBuilderConfig).items()
    settable = [name for name, one in properties if isinstance(one, property) and one.fset]
    return found | dict.fromkeys(settable, _PROPERTY)


def _setting(trt: Any, known: Mapping[str, str], name: str, value: Any) -> Setting:
    if name in _OPTIONS:
        hint = f"Use the option {_OPTIONS[name]}."
        raise unusable("SGK161", "builder", f"names {name!r}, which an option sets", hint)
    if name not in known or name in _KEPT:
        free = sorted(known.keys() - _KEPT - _OPTIONS.keys(), key=str.lower)
        what = "which the backend decides" if name in known else "which this library does not have"
        problem = f"names {name!r}, {what}{did_you_mean(name, free)}"
        raise unusable("SGK160", "builder", problem, f"It has: {', '.join(free)}.")
    owner = known[name]
    if owner == _PROPERTY:
        return owner, name, _of_property(trt, name, value)
    if owner == _POOL and (not isinstance(value, int) or isinstance(value, bool)):
        raise _wrong_type(name, value, "a number of bytes")
    if owner != _POOL and value not in {0, 1}:  # so text says it as well
        raise _wrong_type(name, value, "true or false")
    return owner, name, value if owner == _POOL else bool(value)


def _of_property(trt: Any, name: str, value: Any) -> Any:
    """Return a value as a property takes it: the binding's signature tells an enumeration."""
    signature = getattr(vars(trt.IBuilderConfig)[name].fget, "__doc__", None) or ""
    kind = signature.rpartition("-> ")[2].strip().rpartition(".")[2]
    members = getattr(getattr(trt, kind, None), "__members__", None)
    if members is None:
        return value
    if str(value) not in members:
        raise _wrong_type(name, value, f"one of {', '.join(members)}")
    return members[str(value)]


def _wrong_type(name: str, value: Any, expected: str) -> OptionError:
    problem = f"gives {name} the value {value!r}, expected {expected}"
    return unusable("SGK111", "builder", problem, "")
