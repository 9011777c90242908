"""The fit of an engine built elsewhere: may it be loaded here, as far as NVIDIA promises it.

Engines run on the version and the kind of GPU they were built for. Options at build widen that:
``version_compatible`` to newer releases and to the lean and dispatch runtimes,
``hardware_compatible`` to a class of GPUs. The library itself has the last word when it loads the
plan.

Source: NVIDIA's TensorRT documentation, "Engine Compatibility"; which major versions go together is
in its "Support Matrix".
"""

import re
from typing import Final

from subgraphkit.backend import Answer, EngineOrigin, Refusal
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.library.capabilities import release_of

__all__ = ["engine_fits"]

_DRIVER: Final = re.compile(r"(.*),cuda(\d+)\.(\d+)")
_RUNTIMES: Final = frozenset({"tensorrt", "tensorrt_lean", "tensorrt_dispatch"})
_NEXT_MAJOR: Final = {10: 11}
"""The major versions whose runtimes take version-compatible engines of an older one."""


def engine_fits(made: EngineOrigin, here: EngineOrigin, options: Options) -> Answer:
    """Say whether an engine fits.

    Args:
        made: Where it was built.
        here: This process.
        options: The options of the backend; those that shape engines are those it has.

    Returns:
        True, or a refusal that says what is in the way.
    """
    flavour, version, target, others = _parts(made.fingerprint)
    flavour_here, version_here, target_here, others_here = _parts(here.fingerprint)
    problem = (
        ("they were built for another system" if made.system != here.system else "")
        or _version_problem((flavour, version), (flavour_here, version_here), options)
        or _device_problem(target, target_here)
    )
    if not problem and others != others_here:
        problem = "plugin libraries or converters differ"
    if not problem and made.implementation != here.implementation:
        problem = "another version of the backend wrote them"
    return Refusal("engine_does_not_fit", problem) if problem else True


def _parts(fingerprint: str) -> tuple[str, str, str, str]:
    """Return flavour, version, target and the rest; see ``TensorRTBackend.fingerprint``."""
    flavour, version, target, rest = (fingerprint.split(";", 3) + [""] * 4)[:4]
    return flavour, version, target, rest


def _version_problem(made: tuple[str, str], here: tuple[str, str], options: Options) -> str:
    if made == here:
        return ""
    if not {made[0], here[0]} <= _RUNTIMES:
        other = "version of the library" if made[0] == here[0] else "library"
        return f"they were built by another {other}"
    if not options.version_compatible:
        return (
            "they run on the library they were built with; version_compatible=true builds for "
            "newer ones and for the lean and dispatch runtimes"
        )
    then, now = release_of(made[1]), release_of(here[1])
    if not then or not now or now < then:
        return "they run on libraries no older than the one they were built with"
    if now[0] not in (then[0], _NEXT_MAJOR.get(then[0])):
        return f"libraries of major version {now[0]} do not take them"
    return ""


def _device_problem(made: str, here: str) -> str:
    if made == here:
        return ""
    then, now = _DRIVER.fullmatch(made), _DRIVER.fullmatch(here)
    if then is None or now is None or then[1] != now[1]:
        return "they were built for another GPU"
    if (int(now[2]), int(now[3])) < (int(then[2]), int(then[3])):
        return "the driver here is older than where they were built"
    return ""
