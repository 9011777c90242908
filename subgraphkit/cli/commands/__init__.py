"""The commands of the command line: a module each, named here with its purpose.

The list is apart from the modules, so that ``--help`` and a mistyped word are answered without
importing what the commands need.
"""

from typing import Final

GROUPS: Final = {
    "author": "write a backend of your own: new-backend, manifest, test",
    "deploy": "carry a model to where it runs: spec, serve, export-triton, probe, cache",
}
"""Words before commands that few need, each with what it is for."""

PURPOSES: Final = {
    "run": "run a model once, on given or random inputs",
    "plan": "show which nodes would run where, and why; nothing is compiled",
    "build": "compile a model ahead, so that the next bind finds its engines",
    "verify": "compare what a backend computes with a reference, subgraph by subgraph if asked",
    "bench": "measure backends on one model, taking turns",
    "profile": "measure where the time of a model's runs goes, down to kernels",
    "tune": "measure who runs a model best, subgraph by subgraph, and keep the plan",
    "convert": "write a model anew in fp16, bf16, int8 or fp8",
    "list": "list the backends, or show what one says about itself",
    "doctor": "find out what works here, and how to mend what does not",
    "author new-backend": "write a package to start a backend of your own from",
    "author manifest": "write the options of a backend into its manifest and as types, or check "
    "them",
    "author test": "hold a backend against the contract, case by case",
    "deploy spec": "write what a session is opened by in any process, or check it",
    "deploy serve": "serve models over HTTP, in the Open Inference Protocol, until Ctrl-C",
    "deploy export-triton": "write a model for Triton's Python backend, from the spec of a session",
    "deploy probe": "ask a server for one inference, to find out whether a model there answers",
    "deploy cache": "list, check or remove the compiled engines that are kept",
}
"""The built-in commands, each with what it does."""


def command_of(words: list[str]) -> str:
    """Return the built-in command that a command line begins with, or an empty string."""
    name = " ".join(words[: 2 if words and words[0] in GROUPS else 1])
    return name if name in PURPOSES else ""
