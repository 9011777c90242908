"""An extension that fails when it is called."""

from subgraphkit.backend import CompileEvent, hookimpl


@hookimpl
def subgraphkit_compiled(event: CompileEvent) -> None:
    raise OSError(f"no space to note {event.subgraph}")
