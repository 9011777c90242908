"""The commands of the command line: a module each, named here with its purpose.

The list is apart from the modules, so that ``--help`` and a mistyped word are answered without
importing what the commands need.
"""

from typing import Final

__all__ = ["PURPOSES"]

PURPOSES: Final = {
    "run": "run a model once, on given or random inputs",
    "plan": "show which nodes would run where, and why; nothing is compiled",
    "build": "compile a model ahead, so that the next bind finds its engines",
    "spec": "write what a session is opened by in any process, or check it",
    "verify": "compare what a backend computes with a reference, subgraph by subgraph if asked",
    "bench": "measure backends on one model, taking turns",
    "profile": "measure where the time of a model's runs goes, down to kernels",
    "serve": "serve models over HTTP, in the Open Inference Protocol, until Ctrl-C",
    "tune": "measure who runs a model best, subgraph by subgraph, and keep the plan",
    "calibrate": "find out how large a model's values get, for convert",
    "convert": "write a model anew in fp16, bf16 or int8",
    "export-triton": "write a model for Triton's Python backend, from the spec of a session",
    "probe": "ask a server for one inference, to find out whether a model there answers",
    "list": "list the backends",
    "info": "show what a backend says about itself",
    "doctor": "find out what works here, and how to mend what does not",
    "config": "show every setting and where its value comes from",
    "cache": "list, check or remove the compiled engines that are kept",
    "new-backend": "write a package to start a backend of your own from",
    "manifest": "write the options of a backend into its manifest and as types, or check them",
    "test": "hold a backend against the contract, case by case",
    "selftest": "let a backend try on this machine what only its device can show",
    "completion": "write a script that completes what is typed in a shell",
    "version": "show versions",
}
"""The built-in commands, each with what it does."""
