"""Capabilities of the TensorRT at hand, looked up once on its classes and enumerations.

Names come and go from release to release, and the number of a release says less than the names it
has: TensorRT for RTX counts from 1 and is of the generation of TensorRT 11. So everything that can
be looked up is looked up, on the *classes*: several attributes can only be written, and ``hasattr``
of an instance denies them. Members of enumerations are known by name; their integers move.

Code that touches a name which only some releases have asks the field here that stands for it. A
test reads the package's sources and holds them against the names of ten releases, going by the
usual names of variables: ``trt`` is the module, ``builder`` a ``Builder``, ``network`` an
``INetworkDefinition``, ``parser`` an ``OnnxParser``, ``config`` an ``IBuilderConfig``, ``profile``
an ``IOptimizationProfile``, ``runtime`` a ``Runtime``, ``engine`` an ``ICudaEngine``,
``execution_context`` an ``IExecutionContext``, ``refitter`` a ``Refitter`` and ``inspector`` an
``EngineInspector``.
"""

import re
from dataclasses import dataclass, field, fields
from typing import Any, Final

_PATH: Final = "path"
_ENUMERATION: Final = "enumeration"
_DOCUMENTED: Final = {"tensorrt_rtx": "1.7"}
_NEWEST: Final = "11.1"
"""The releases that the operator table is of, as far as it goes; ``_NEWEST`` if not named."""
OLDEST: Final = (10, 3)
"""The first release that answers by subgraph, streams weights and counts memory in 64 bits."""
_RELEASE: Final = re.compile(r"\d+(\.\d+)*")
_RTX_GENERATION: Final = (11, 0)
"""The release of TensorRT whose behaviour TensorRT for RTX 1.x shares."""


def _has(path: str) -> Any:
    """Declare a field that says whether the library has a member of a class."""
    return field(default=False, metadata={_PATH: path})


def _members(enumeration: str) -> Any:
    """Declare a field that holds the names of an enumeration; empty if it does not exist."""
    return field(default=frozenset(), metadata={_ENUMERATION: enumeration})


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of a TensorRT library.

    Attributes:
        generation: Numbers of the TensorRT release whose behaviour it has, for the few behaviours
            that no name gives away.
        plugins: Networks take plugins, which those of TensorRT for RTX do not.
        gpus: Names of the compute capabilities it has kernels for, such as ``SM89``; empty if it
            does not say (RTX).
    """

    flavour: str
    version: str
    generation: tuple[int, ...]
    load_initializer: bool = _has("OnnxParser.load_initializer")
    runtime_config: bool = _has("ICudaEngine.create_runtime_config")
    cuda_graph_strategy: bool = _has("IRuntimeConfig.cuda_graph_strategy")
    engine_stat: bool = _has("ICudaEngine.get_engine_stat")
    plugins: bool = _has("INetworkDefinition.add_plugin_v3")
    preview_features: frozenset[str] = _members("PreviewFeature")
    gpus: frozenset[str] = _members("ComputeCapability")

    @classmethod
    def of(cls, trt: Any, flavour: str) -> "Capabilities":
        """Look at a module."""
        version = str(getattr(trt, "__version__", ""))
        found: dict[str, Any] = {}
        for one in fields(cls):
            if _PATH in one.metadata:
                owner, _, member = one.metadata[_PATH].partition(".")
                found[one.name] = hasattr(getattr(trt, owner, None), member)
            elif _ENUMERATION in one.metadata:
                found[one.name] = _names(trt, one.metadata[_ENUMERATION])
        return cls(flavour, version, _generation(flavour, version), **found)

    @classmethod
    def declared(cls, flavour: str) -> "Capabilities":
        """Stand for a library that is not there: of the newest release in the operator table."""
        version = _DOCUMENTED.get(flavour, _NEWEST)
        return cls(flavour, version, _generation(flavour, version))

    @property
    def keeps_timings(self) -> bool:
        """Whether a timing cache does anything; with TensorRT for RTX it only asks for a GPU."""
        return self.flavour != "tensorrt_rtx"


def _names(trt: Any, enumeration: str) -> frozenset[str]:
    return frozenset(getattr(getattr(trt, enumeration, None), "__members__", ()))


def release_of(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, without ``.post1``, ``b6`` and the like."""
    found = _RELEASE.match(version.strip())
    return tuple(map(int, found[0].split("."))) if found else ()


def _generation(flavour: str, version: str) -> tuple[int, ...]:
    numbers = release_of(version)[:3]
    # A number that cannot be read is taken for a new one: old releases say theirs.
    return numbers if numbers and flavour != "tensorrt_rtx" else _RTX_GENERATION
