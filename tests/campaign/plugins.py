"""Bad plugins, written from parts: what they do wrong, and where."""

import itertools
import os
import random
import shutil
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np

import subgraphkit as sk
from tests.campaign.children import in_fork
from tests.campaign.trials import Attack, Case, Outcome, require
from tests.models import CHAIN, parsed

_PLUGIN: Final = """
import ctypes, os, sys, time
{imported}
from subgraphkit.backend import *
import subgraphkit as sk

class Operator(sk.SubgraphOperator):
    def __init__(self, subgraph):
        self.subgraph = subgraph
        {made}
    def run(self, inputs, outputs=None):
        {run}
        return [x.copy() for x in inputs]
    def close(self):
        {closed}

class Selector(sk.SubgraphSelector):
    def select(self, node):
        {select}
        return node.op_type == "Relu"

class Property(sk.SubgraphProperty):
    def create_selector(self, graph):
        {selector}
        return Selector()
    def accept(self, subgraph):
        {accept}
        return True
    def create_operator(self, subgraph, context):
        {operator}
        return Operator(subgraph)

class Plugin(sk.Backend):
    name = {name!r}
    def properties(self):
        {properties}
        return [Property()]
    @classmethod
    def probe(cls, deep=False):
        {probed}
        return super().probe(deep)
    def fingerprint(self):
        {fingerprint}
        return "x"
"""
PLACES: Final = (
    *("imported", "made", "run", "closed", "select", "selector", "accept", "operator"),
    *("properties", "probed", "fingerprint"),
)
DEEDS: Final = {
    "raises": "raise ValueError('no')",
    "raises what cannot be written": "raise type('E', (Exception,), {'__str__': lambda e: 1 / 0})",
    "raises text with escapes": "raise RuntimeError('\\x1b[2J\\ud800' * 1000)",
    "leaves": "raise SystemExit(3)",
    "raises the base": "raise BaseException('no')",
    "ends a generator": "raise GeneratorExit",
    "recurses": "(lambda f: f(f))(lambda f: f(f))",
    "runs out of memory": "raise MemoryError",
    "prints": "print('noise'); os.write(1, b'noise'); os.write(2, b'noise')",
    "goes elsewhere": "os.chdir('/')",
    "returns a number": "return 7",
    "returns nothing": "return None",
    "returns an endless list": "import itertools; return itertools.count()",
    "exits": "os._exit(3)",
    "aborts": "os.abort()",
    "crashes": "ctypes.string_at(0)",
    "hangs": "time.sleep(600)",
}
DEADLY: Final = frozenset({"exits", "aborts", "crashes", "hangs"})
_FILES: Final = {
    "entry points are not UTF-8": (
        "entry_points.txt",
        b"[subgraphkit.backends]\nbad = \xff\xfe:X\n",
    ),
    "entry points are no INI": ("entry_points.txt", b"no section\n[[[\n"),
    "an entry point has no module": ("entry_points.txt", b"[subgraphkit.backends]\nbad =\n"),
    "an entry point names a number": ("entry_points.txt", b"[subgraphkit.backends]\nbad = 7:8\n"),
    "an entry point is very long": (
        "entry_points.txt",
        b"[subgraphkit.backends]\nbad = " + b"a" * 10**6,
    ),
    "an entry point is called strangely": (
        "entry_points.txt",
        b"[subgraphkit.backends]\n\x1b[2J = bad:X\n",
    ),
    "there are 10,000 entry points": (
        "entry_points.txt",
        b"[subgraphkit.backends]\n" + b"".join(b"b%d = bad:X\n" % n for n in range(10_000)),
    ),
    "the metadata are not UTF-8": ("METADATA", b"Name: \xff\xfe\nVersion: \xff\n"),
    "the metadata are empty": ("METADATA", b""),
    "there is no version": ("METADATA", b"Metadata-Version: 2.1\nName: bad-plugin\n"),
    "the version is none": (
        "METADATA",
        b"Metadata-Version: 2.1\nName: bad-plugin\nVersion: \x1b[2J\n",
    ),
    "the manifest is not UTF-8": ("subgraphkit-backend.toml", b"name = '\xff\xfe'\n"),
    "the manifest is no TOML": ("subgraphkit-backend.toml", b"name = = 3"),
    "the manifest is empty": ("subgraphkit-backend.toml", b""),
    "the manifest is a table": ("subgraphkit-backend.toml", b"[name]\n[api]\n[options]\nx = 3\n"),
    "the manifest is deep": ("subgraphkit-backend.toml", b"a = " + b"[" * 5000 + b"]" * 5000),
    "the manifest is of the future": ("subgraphkit-backend.toml", b"name = 'bad'\napi = '99.0'\n"),
    "it takes our name": (
        "entry_points.txt",
        b"[subgraphkit.backends]\nnumpy = bad_plugin:Plugin\n",
    ),
    "it extends and fails": ("entry_points.txt", b"[subgraphkit.plugins]\nbad = nowhere:X\n"),
}
FAULTS: Final = (*itertools.product(PLACES, DEEDS), *(("file", name) for name in _FILES))
"""Everything that a plugin may do wrong: where, and what."""
_MAYBE: Final = ("beside", "list", "auto", "named")


class Plugins(Attack):
    """Install a bad plugin, and use another backend, all that are there, or the bad one."""

    name, wall = "plugins", 120.0
    about = "bad plugins, beside others, in a list, met by auto, and named"

    def prepare(self, scratch: Path, backend: str) -> None:
        self._site = scratch / f"site-{os.getpid()}"
        self._model, self._x = parsed(CHAIN), np.ones((2, 4), np.float32)

    def case(self, seed: int) -> Case:
        rng = random.Random(seed)
        place, deed = FAULTS[seed % len(FAULTS)]
        # Who names a plugin that ends the process has asked for it, unless it is isolated.
        doings = _MAYBE[:3] if deed in DEADLY else _MAYBE
        return {"place": place, "deed": deed, "doing": rng.choice(doings)}

    def attempt(self, case: Case, backend: str) -> Outcome:
        shutil.rmtree(self._site, ignore_errors=True)
        self._install(case)
        return in_fork(lambda: self._use(case, backend), 60.0)

    def _install(self, case: Case) -> None:
        package, told = self._site / "bad_plugin", self._site / "bad_plugin-1.0.dist-info"
        for folder in (package, told):
            folder.mkdir(parents=True)
        parts = dict.fromkeys(PLACES, "pass") | {"name": "bad"}
        if case["place"] in parts:
            parts[case["place"]] = DEEDS[case["deed"]]
            if case["place"] == "imported" and "return" in DEEDS[case["deed"]]:
                parts["imported"] = "sys.modules[__name__] = 7"
        (package / "__init__.py").write_text(textwrap.dedent(_PLUGIN).format(**parts))
        files = {
            told / "METADATA": b"Metadata-Version: 2.1\nName: bad-plugin\nVersion: 1.0\n",
            told / "entry_points.txt": b"[subgraphkit.backends]\nbad = bad_plugin:Plugin\n",
            package / "subgraphkit-backend.toml": b'name = "bad"\napi = "1.0"\nsummary = "bad"\n',
        }
        for path, content in files.items():
            name, other = _FILES.get(case["deed"], ("", b""))
            path.write_bytes(other if path.name == name else content)

    def _use(self, case: Case, backend: str) -> Outcome | None:
        sys.path.insert(0, str(self._site))
        sys.path_importer_cache.clear()
        warnings.simplefilter("ignore")
        os.environ["SUBGRAPH_BLOCK"] = "tvm,tensorrt,openvino,onednn,onnxruntime"
        if case["doing"] == "list":
            from subgraphkit.finding.listing import list_backends  # noqa: PLC0415 (in the fork)

            require("numpy" in {one.name for one in list_backends()}, "numpy is not listed")
            return None
        chosen: Any = {"beside": backend, "auto": "auto", "named": f"bad,{backend}"}[case["doing"]]
        with sk.InferenceSession(self._model, chosen, cache="off", on_fallback="ok") as session:
            (result,) = session.run(None, {"x": self._x})
        # A plugin that was named may compute what it likes: this one hands on what it is given.
        require(case["doing"] != "beside" or not result.any(), "another result")
        return None
