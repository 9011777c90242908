"""The tolerances that backends of a bind declare, for comparisons of their results."""

from collections.abc import Iterable
from typing import Any

from subgraphkit.backend.conformance import Conformance
from subgraphkit.configuration.config import ResolvedConfig
from subgraphkit.configuration.selection import BackendChoice
from subgraphkit.errors import SubgraphkitError, describe_exception
from subgraphkit.finding import messages
from subgraphkit.finding.registry import find_record, load_record

__all__ = ["declared_tolerances"]


def declared_tolerances(names: Iterable[str], resolved: ResolvedConfig) -> Conformance:
    """Collect how far results of a computation that backends share may be off.

    Args:
        names: Names of the backends that take part.
        resolved: The configuration of the bind they take part in.

    Returns:
        For each dtype the widest tolerance that one of them declares; nothing else.

    Raises:
        BackendLoadError: What a backend declares cannot be read (SGK115).
    """
    widest = Conformance()
    for name in names:
        suite = Conformance()
        try:
            _factory(name, resolved).conformance(suite)
        except SubgraphkitError:
            raise
        except Exception as error:
            problem = f"its conformance raised {describe_exception(error)}"
            raise messages.bad_registration(name, problem) from error
        for dtype, (relative, absolute) in suite.tolerances.items():
            known = widest.tolerances.get(dtype, (0.0, 0.0))
            widest.tolerances[dtype] = (max(known[0], relative), max(known[1], absolute))
    return widest


def _factory(name: str, resolved: ResolvedConfig) -> Any:
    choice = next((one for one in resolved.backends if one.name == name), BackendChoice(name))
    if choice.target is not None:
        return choice.target
    return load_record(find_record(choice, resolved))
