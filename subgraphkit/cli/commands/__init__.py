"""The commands of the command line: a module each, named here with its purpose.

The list is apart from the modules, so ``--help`` and a mistyped word need no imports of the
commands.
"""

from typing import Final

GROUPS: Final = {
    "author": "write a backend of your own: new-backend, manifest, test",
    "deploy": "move a model to where it runs: spec, serve, export-triton, probe, cache",
}
"""Words before commands that few need, each with its purpose."""

PURPOSES: Final = {
    "run": "run a model once, on your inputs or on random ones",
    "plan": "show which backend would run which nodes, and why",
    "build": "compile a model ahead of time and keep its engines",
    "verify": "compare the results of a backend with a reference",
    "bench": "time backends against each other on one model",
    "profile": "show where the time of a run goes, down to kernels",
    "tune": "find the fastest placement of a model, and keep it",
    "convert": "rewrite a model in fp16, bf16, int8 or fp8",
    "list": "list the backends, or the details of one",
    "doctor": "check what works on this machine, and how to fix the rest",
    "author new-backend": "write a package for a backend of your own",
    "author manifest": "check a backend's manifest and option types, or write them",
    "author test": "test a backend against the contract",
    "deploy spec": "write, or check, how other processes open a session",
    "deploy serve": "serve models over HTTP (Open Inference Protocol)",
    "deploy export-triton": "write a model for Triton's Python backend",
    "deploy probe": "ask a server for one inference, as a health check",
    "deploy cache": "list, check or remove kept engines",
}


def command_of(words: list[str]) -> str:
    """Return the built-in command that a command line begins with, or an empty string."""
    name = " ".join(words[: 2 if words and words[0] in GROUPS else 1])
    return name if name in PURPOSES else ""
