"""Capabilities of the TensorRT at hand, looked up once on its classes and enumerations.

Names come and go from release to release. The number of a release says less than its names:
TensorRT for RTX counts from 1 and is of the generation of TensorRT 11. So names are looked up
wherever they can be. They are looked up on the *classes*, because several attributes can only be
written: ``hasattr`` of an instance denies them. Members of enumerations are known by name, because
their integers change.

Only some releases have some names. Code that uses such a name first asks the field here that stands
for it. A test compares the package's sources with the names of ten releases. It knows a class by
the name of the variable:

* ``trt`` is the module;
* ``builder`` is a ``Builder``, ``network`` an ``INetworkDefinition``;
* ``parser`` is an ``OnnxParser``, ``config`` an ``IBuilderConfig``;
* ``profile`` is an ``IOptimizationProfile``, ``runtime`` a ``Runtime``;
* ``engine`` is an ``ICudaEngine``, ``execution_context`` an ``IExecutionContext``;
* ``refitter`` is a ``Refitter``, ``inspector`` an ``EngineInspector``.
"""

import re
from dataclasses import dataclass, field, fields
from typing import Any, Final

_NAME: Final = "name"
_DOCUMENTED: Final = {"tensorrt_rtx": "1.7"}
_NEWEST: Final = "11.1"
"""The releases that the operator table is of, as far as it goes; ``_NEWEST`` if not named."""
OLDEST: Final = (10, 3)
"""The first release that answers by subgraph, streams weights and counts memory in 64 bits."""
_RELEASE: Final = re.compile(r"\d+(\.\d+)*")
_RTX_GENERATION: Final = (11, 0)
"""The release of TensorRT whose behaviour TensorRT for RTX 1.x shares."""


def _field_of(name: str) -> Any:
    """Declare a field: whether a class has a member, or the names of an enumeration, if any."""
    return field(default=False if "." in name else frozenset(), metadata={_NAME: name})


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
    load_initializer: bool = _field_of("OnnxParser.load_initializer")
    runtime_config: bool = _field_of("ICudaEngine.create_runtime_config")
    cuda_graph_strategy: bool = _field_of("IRuntimeConfig.cuda_graph_strategy")
    engine_stat: bool = _field_of("ICudaEngine.get_engine_stat")
    plugins: bool = _field_of("INetworkDefinition.add_plugin_v3")
    preview_features: frozenset[str] = _field_of("PreviewFeature")
    gpus: frozenset[str] = _field_of("ComputeCapability")

    @classmethod
    def of(cls, trt: Any, flavour: str) -> "Capabilities":
        """Look at a module."""
        version = str(getattr(trt, "__version__", ""))
        found: dict[str, Any] = {}
        for one in fields(cls):
            if one.metadata:
                name, _, member = one.metadata[_NAME].partition(".")
                owner = getattr(trt, name, None)
                names = frozenset(getattr(owner, "__members__", ()))
                found[one.name] = hasattr(owner, member) if member else names
        return cls(flavour, version, _generation(flavour, version), **found)

    @classmethod
    def without_library(cls, flavour: str) -> "Capabilities":
        """Stand for a library that is not there: of the newest release in the operator table."""
        version = _DOCUMENTED.get(flavour, _NEWEST)
        return cls(flavour, version, _generation(flavour, version))


def release_of(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, without ``.post1``, ``b6`` and the like."""
    found = _RELEASE.match(version.strip())
    return tuple(map(int, found[0].split("."))) if found else ()


def _generation(flavour: str, version: str) -> tuple[int, ...]:
    numbers = release_of(version)[:3]
    # A number that cannot be read is taken for a new one: old releases say theirs.
    return numbers if numbers and flavour != "tensorrt_rtx" else _RTX_GENERATION
