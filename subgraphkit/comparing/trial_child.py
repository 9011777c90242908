"""Probe a backend and try it, in a process that it may take down.

``python -m subgraphkit.comparing.trial_child NAME [ORIGIN] [--deep]`` writes a JSON document per
line: what the probe found, then the operators of every model before it is tried, then what became
of the trial. So whoever reads it knows how far a backend came.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, replace

from subgraphkit.comparing.trial import try_backend
from subgraphkit.configuration.config import resolve
from subgraphkit.finding.child_probe import answering, probe_here


def main(arguments: Sequence[str]) -> int:
    """Probe and try the backend named by the first argument."""
    name, *words = arguments
    origin = next((word for word in words if word != "--deep"), "")
    with answering() as answer:
        facts = probe_here(name, origin or f"the argument {name!r}", deep="--deep" in words)
        answer(facts)
        if facts["state"] == "ok":
            trial = try_backend(
                _as_selected(name),
                lambda operators: answer({"trying": operators}),
                runs=not facts["builds_only"],
            )
            answer({"trial": asdict(trial)})
    return 0


def _as_selected(name: str) -> str:
    """Return a backend's name with the options that the configured selection gives it."""
    named = name.partition("@")[0]
    chosen = (one for one in resolve().backends if one.name == named and one.options)
    return next((str(replace(one, optional=False)) for one in chosen), name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
