"""Options of sessions and runs, in ONNX Runtime's words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

from subgraphkit.errors import CallerError
from subgraphkit.running import RunOptions as _RunOptions


def no_equivalent(what: str, instead: str) -> CallerError:
    """SGK114: something of ONNX Runtime's that does not exist here."""
    return CallerError("SGK114", f"{what} has no equivalent in subgraphkit", hint=instead)


class UnknownNameError(CallerError, RuntimeError):
    """A configuration entry or a provider of a name that nobody knows (SGK107)."""


def _entry(entries: Mapping[str, str], key: str) -> str:
    if key not in entries:
        problem = f"there is no configuration entry {key!r}"
        raise UnknownNameError("SGK107", problem, hint="Add it before you ask for it.")
    return entries[key]


class GraphOptimizationLevel(IntEnum):
    """How far a model is rewritten before it runs; for the backend onnxruntime."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Whether independent nodes may run at the same time; for the backend onnxruntime."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """In which order nodes run; ours is fixed by the plan."""

    DEFAULT = 0
    PRIORITY_BASED = 1


_LEVELS: Final[Mapping[int, str]] = {0: "none", 1: "basic", 2: "extended", 3: "all", 99: "all"}


class SessionOptions:
    """Options of a session.

    Threads reach every backend that has an option for them. Optimization level, execution mode,
    configuration entries and the arena reach only the backend onnxruntime. Free dimensions become
    ``shapes``. Memory patterns, logging and execution order are each backend's own affair: these
    attributes are kept and have no effect.
    """

    def __init__(self) -> None:
        self.intra_op_num_threads = 0
        self.inter_op_num_threads = 0
        self.graph_optimization_level: int = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.execution_mode: int = ExecutionMode.ORT_SEQUENTIAL
        self.execution_order: int = ExecutionOrder.DEFAULT
        self.enable_cpu_mem_arena = True
        self.enable_mem_pattern = True
        self.enable_mem_reuse = True
        self.use_deterministic_compute = False
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self.logid = ""
        self.enable_profiling = False
        self.profile_file_prefix = ""
        self.optimized_model_filepath = ""
        self._entries: dict[str, str] = {}
        self._sizes: dict[str, int] = {}

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry for the backend onnxruntime."""
        self._entries[str(key)] = str(value)

    def get_session_config_entry(self, key: str) -> str:
        """Return an entry; UnknownNameError (SGK107) if there is none of that name."""
        return _entry(self._entries, key)

    def has_session_config_entry(self, key: str) -> bool:
        """Say whether there is an entry of that name."""
        return key in self._entries

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Fix a named dimension."""
        self._sizes[name] = size

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Refuse (SGK114): dimensions are known by name here."""
        problem = f"a size by denotation, {denotation!r}={size}"
        raise no_equivalent(problem, "Use add_free_dimension_override_by_name.")

    def add_initializer(self, name: str | Sequence[str], value: object) -> None:  # noqa: ARG002 (as there)
        """Refuse (SGK114): weights come with the model."""
        raise no_equivalent(
            f"the initializer {name!r} given beside the model",
            "Open the model with weights, and exchange them with update_weights of a Session.",
        )

    add_external_initializers = add_initializer
    """Refuse likewise, for several names."""

    def register_custom_ops_library(self, path: str) -> None:
        """Refuse (SGK114): operators of one's own are for a backend to bring."""
        raise no_equivalent(
            f"the operator library {path!r}", "Operators of your own come with a backend."
        )

    @property
    def sizes(self) -> Mapping[str, int]:
        """Sizes of named dimensions."""
        return self._sizes

    @property
    def threads(self) -> int | None:
        """How many threads the whole session computes with; None if that is left open."""
        return max(0, int(self.intra_op_num_threads)) or None

    def options_for(self, backend: str) -> dict[str, Any]:
        """Return the options of a backend that say the same, without those at their defaults.

        CallerError (SGK114) if something is asked for that no backend does for us.
        """
        for name in ("enable_profiling", "optimized_model_filepath"):
            if getattr(self, name):
                hint = "Measure with 'subgraphkit bench'; keep what was compiled by Session.export."
                raise no_equivalent(name, hint)
        if backend != "onnxruntime":
            return {}
        parallel = int(self.execution_mode) == ExecutionMode.ORT_PARALLEL
        level = _LEVELS[int(self.graph_optimization_level)]
        said = {
            "inter_op_threads": max(0, int(self.inter_op_num_threads)) or None,
            "optimization": level if level != "all" else None,
            "execution_mode": "parallel" if parallel else None,
            "arena": None if self.enable_cpu_mem_arena else False,
            "session_config": [f"{key}={value}" for key, value in self._entries.items()] or None,
        }
        return {name: value for name, value in said.items() if value is not None}


class RunOptions(_RunOptions):
    """Options of a run; ``terminate`` ends the runs that have them, all others change nothing."""

    def __init__(self, timeout_s: float | None = None) -> None:
        super().__init__(timeout_s)
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self.logid = ""
        self.only_execute_path_to_fetches = False
        self.training_mode = False
        self._entries: dict[str, str] = {}

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keep an entry."""
        self._entries[str(key)] = str(value)

    def get_run_config_entry(self, key: str) -> str:
        """Return an entry; UnknownNameError (SGK107) if there is none of that name."""
        return _entry(self._entries, key)

    def check(self) -> None:
        """Refuse a run that is to train (CallerError, SGK114)."""
        if self.training_mode:
            raise no_equivalent("RunOptions.training_mode", "Leave it False.")


@dataclass(frozen=True)
class ModelMetadata:
    """Facts that a model states about itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, proto: Any) -> "ModelMetadata":
        """Read the facts in a ``ModelProto``."""
        texts = proto.producer_name, proto.graph.name, proto.domain, proto.doc_string
        entries = {entry.key: entry.value for entry in proto.metadata_props}
        return cls(*texts, proto.graph.doc_string, proto.model_version, entries)
