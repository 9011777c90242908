"""Options of the backend as types, as `subgraphkit author manifest write` writes them."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of backend 'iree'; `subgraphkit list iree --options` says more."""

    device: Literal["cpu", "vulkan", "cuda", "hip"] = "cpu"
    """What to compile for and run on."""
    threads: int = 0
    """How many threads to compute with on the processor; 0 is what the session has."""
    optimization: int = 2
    """How hard the compiler tries, its --iree-opt-level."""
    target: str = ""
    """The architecture to compile for, such as x86-64-v3, sm_86, gfx942 or rdna3; empty is that
    of this machine."""
    flags: tuple[str, ...] = ()
    """More flags for the compiler, as iree-compile takes them."""
