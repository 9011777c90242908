"""Options of the backend as types, as `subgraphkit author manifest write` writes them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["Options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of backend 'onnxruntime'; `subgraphkit list onnxruntime --options` says more."""

    providers: tuple[str, ...] = ("cpu",)
    """Execution providers, best first: cpu, cuda, tensorrt, or names as ONNX Runtime spells
    them. One that this build lacks is an error."""
    provider_options: tuple[str, ...] | None = None
    """Options of providers as key=value for the first one, PROVIDER.key=value for another."""
    threads: int = 0
    """Threads within a node (intra_op_num_threads); 0 means as many as the setting threads."""
    inter_op_threads: int = 0
    """Threads between nodes, in execution mode parallel; 0 means as many as the setting threads."""
    optimization: Literal["none", "basic", "extended", "all"] = "all"
    """Graph optimization level."""
    prepack: bool = True
    """Whether weights are packed for the processor when a session is opened. A packed copy is
    memory of each process alone; without one, processes that open the same bundle share it."""
    arena: bool = True
    """Whether memory of a run is kept for the next one. Without, it is given back after each,
    and runs may take longer."""
    execution_mode: Literal["sequential", "parallel"] = "sequential"
    """Whether nodes that do not depend on each other may run at the same time."""
    session_config: tuple[str, ...] | None = None
    """Session configuration entries as key=value, handed on as they are; ONNX Runtime ignores
    keys it does not know."""
    profile: Path | None = None
    """Prefix of the files to which each session writes ONNX Runtime's own profile when it is
    closed."""
    log_level: Literal["verbose", "info", "warning", "error", "fatal"] = "error"
    """From which severity on ONNX Runtime writes to standard error."""
