"""The backend: it finds the library, checks the options, and hands both to claim, build and run."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final

import subgraphkit as sk
from subgraphkit.backend import (
    Answer,
    BindContext,
    Conformance,
    EngineOrigin,
    installed_versions,
    unavailable,
)
from subgraphkit.errors import OptionError
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.library import flavours
from subgraphkit_tensorrt.library.builder_settings import read_settings
from subgraphkit_tensorrt.library.gpus import FP8_FROM, Gpu
from subgraphkit_tensorrt.option_rules import check_agreement, foreign_option, unusable

_AMPERE: Final = 8


class TensorRTBackend(sk.Backend[Options]):
    """Runs the nodes that TensorRT takes on NVIDIA's GPUs.

    Raises:
        BackendUnavailableError: No TensorRT works here (SGK104). One that can only build counts
            only with the option ``build_only``.
        OptionError: The library cannot honour an option (SGK160), or options contradict one another
            (SGK161). There is no such device (SGK112), or a module cannot be imported (SGK168).
    """

    name: ClassVar[str] = "tensorrt"
    api: ClassVar[str] = "1.0"
    # sizes that are fed lie in the ranges of its profiles, or a run is refused
    traits = sk.Traits(pool="none", evidence="asked", holds_limits=True)

    def __init__(self, options: Options | None = None) -> None:
        super().__init__(options)
        self._found = flavours.find(self.option_values.flavour)
        self.library = self._usable()
        check_agreement(self.option_values)
        if self._found.library is not None:
            read_settings(self._found.library.trt, self.option_values.builder)
        self._check_device()
        options = self.option_values
        self.traits = self.traits._replace(
            neighbour=_neighbour(options), keeps_weights=options.refittable
        )
        from subgraphkit_tensorrt.lowering import load_modules  # noqa: PLC0415 (no probe needs it)

        load_modules(options.modules)  # the fingerprint names what they register

    def properties(self) -> Sequence[sk.SubgraphProperty]:
        """Return a property that takes what the parser takes, and one that looks again."""
        from subgraphkit_tensorrt.claiming.filters import Filters  # noqa: PLC0415 (no probe needs it)
        from subgraphkit_tensorrt.claiming.property import RetryPass, TensorRTProperty  # noqa: PLC0415 (no probe needs it)

        filters = Filters(self.library, self.option_values, self.fingerprint())
        return TensorRTProperty(filters), RetryPass(filters)

    @classmethod
    def probe(cls, *, deep: bool = False) -> sk.ProbeResult:
        """Look for TensorRT, its shared libraries, the driver and a GPU.

        A machine that can build engines but not run them counts as available, and the result has
        ``builds_only`` set. The option ``build_only`` asks for no more.
        """
        del deep  # doctor tries a small model in any case
        found = flavours.find(flavours.wanted_flavour())
        is_usable = found.library is not None and found.state != "absent device"
        return sk.ProbeResult(
            available=is_usable,
            devices=tuple(map(str, found.machine.devices)) if is_usable else (),
            versions=_versions(found),
            problems=(found.problem,) if found.problem else (),
            hint=found.hint,
            builds_only=found.state == "build only",
        )

    @classmethod
    def planner(cls, options: Options) -> "TensorRTBackend":
        """Make an instance that claims by the parser, if it answers here, or else by the rules."""
        return _Planner(options)

    @classmethod
    def conformance(cls, suite: Conformance) -> None:
        """Declare the GPU checklist."""
        from subgraphkit_tensorrt.selftest.checklist import checks  # noqa: PLC0415 (no probe needs it)

        suite.selftest(checks())

    @classmethod
    def foreign_option(cls, name: str, value: Any) -> str:
        """Say what to write for an option of another integration of TensorRT."""
        return foreign_option(name, value)

    def fingerprint(self) -> str:
        """Return library, device and driver, and what plugin libraries and converters hold.

        Engines of TensorRT for RTX fit every GPU of RTX, so no device is named.
        """
        from subgraphkit_tensorrt.lowering import identity  # noqa: PLC0415 (no probe needs it)

        capabilities = self.library.capabilities
        parts = [capabilities.flavour, capabilities.version, self._target()]
        parts += [_digest(path) for path in self.option_values.plugin_libraries]
        return ";".join(filter(None, [*parts, identity()]))

    def accepts(self, made: EngineOrigin, here: EngineOrigin) -> Answer:
        """Say whether engines of a bundle fit here; see ``fit``."""
        from subgraphkit_tensorrt.building.plan import engine_fits  # noqa: PLC0415 (no probe needs it)

        return engine_fits(made, here)

    def deserialize(
        self, blob: bytes, subgraph: sk.Subgraph, context: BindContext[Options]
    ) -> sk.SubgraphOperator:
        """Restore a compiled region.

        Raises:
            CompileError: It is damaged, or was made by another version or for another device.
            OptionError: A library of plugins cannot be loaded (SGK167).
        """
        from subgraphkit_tensorrt.claiming.filters import load_plugins  # noqa: PLC0415 (no probe needs it)
        from subgraphkit_tensorrt.running.regions import restore  # noqa: PLC0415 (no probe needs it)

        # When a bundle is opened, nobody has looked at the graph before.
        load_plugins(self.library, self.option_values.plugin_libraries)
        return restore(blob, subgraph, self.library, context)

    def _usable(self) -> flavours.Library:
        """Return the library, if it can do what is asked of it."""
        found = self._found
        if found.library is None or found.state == "absent device":
            raise unavailable("tensorrt", [found.problem], found.hint)
        if found.state == "build only" and not self.option_values.build_only:
            way = "Or set the option build_only=true, to build engines for another machine."
            raise unavailable("tensorrt", [found.problem], found.hint, way)
        return found.library

    def _check_device(self) -> None:
        devices, index = self._found.machine.devices, self.option_values.device
        if devices and index >= len(devices):
            known = f"a number below {len(devices)}: {', '.join(map(str, devices))}"
            hint = "CUDA_VISIBLE_DEVICES says which GPUs CUDA may see, and in which order."
            raise unusable("SGK112", "device", f"is {index}, expected {known}", hint)
        options = self.option_values
        problem = None if not devices else device_problem(self.library, devices[index], options)
        if problem is not None and not options.build_only:
            raise problem

    def _target(self) -> str:
        if self.library.flavour.name == "tensorrt_rtx":
            return "portable"
        devices = self._found.machine.devices
        if not devices:
            return "build only"
        compatible = self.option_values.builder.get("hardware_compatibility_level", "NONE")
        return _device_identity(devices[self.option_values.device], compatible, self._found)


def device_problem(library: flavours.Library, gpu: Gpu, options: Options) -> OptionError | None:
    """Say why a library cannot run on a GPU with these options (SGK156, SGK157); None if it can."""
    if options.precision == "fp8" and gpu.compute_capability < FP8_FROM:
        return unusable(
            "SGK157",
            "precision",
            f"is 'fp8', which {gpu} does not compute in; GPUs of compute capability 8.9, 9.0 and "
            "newer do",
            "Ask for int8, fp16 or bf16, or name another device.",
        )
    problem = flavours.kernels_problem(library, gpu)
    if not problem:
        return None
    title = f"{library.flavour.title} {library.capabilities.version}"
    hint = "Name another device, or install TensorRT itself."
    problem = f"is {gpu.index}, where {title} cannot run: {problem}"
    return unusable("SGK156", "device", problem, hint)


class _Planner(TensorRTBackend):
    """Claims where TensorRT cannot run, or is not there."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        if self.library.trt is None:
            self.traits = self.traits._replace(evidence="declared")

    def _usable(self) -> flavours.Library:
        return flavours.planning_library(self._found)


def _neighbour(options: Options) -> str:
    """Name ONNX Runtime on the same GPU, which takes arrays where they are.

    Nothing is near where engines are only built.
    """
    if options.build_only:
        return ""
    place = f":provider_options=device_id={options.device}" if options.device else ""
    return f"onnxruntime:providers=cuda{place}"


def _device_identity(device: Gpu, compatible: Any, found: flavours.Installation) -> str:
    major, minor = device.compute_capability
    if compatible == "AMPERE_PLUS" and major >= _AMPERE:
        return "AMPERE_PLUS"
    if compatible == "SAME_COMPUTE_CAPABILITY":
        return f"sm{major}{minor}"
    model = f"{device.name},sm{major}{minor},{device.multiprocessors}"
    return f"{model},cuda{found.machine.driver}"


def _versions(found: flavours.Installation) -> dict[str, str]:
    versions = {}
    if found.library is not None:
        versions[found.library.flavour.name] = found.library.capabilities.version
    if found.machine.driver:
        versions["driver (CUDA)"] = found.machine.driver
    return versions | installed_versions("subgraphkit-tensorrt")


def _digest(path: str) -> str:
    """Return what a library of plugins is, or nothing of one that cannot be read, nor loaded."""
    with suppress(OSError):
        return hashlib.blake2b(Path(path).read_bytes(), digest_size=16).hexdigest()
    return ""
