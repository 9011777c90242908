"""Plans in the engine cache of the core: built once, by whoever comes first."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from backends.tensorrt.tests.tensorrt_models import blocks, needs_rtx
from subgraphkit_tensorrt.building import build
from subgraphkit_tensorrt.building.plan import plan_problem
from subgraphkit_tensorrt.library.capabilities import release_of

pytestmark = needs_rtx

# A backend that builds plans and keeps them, without the run side, which needs a GPU.
BUILDER = '''
"""Builds blocks of four nodes."""

import os
from dataclasses import replace

import subgraphkit as sk
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building import build
from subgraphkit_tensorrt.building.plan import read_plans, write_plans
from subgraphkit_tensorrt.building.profiles import buckets_at_bind
from subgraphkit_tensorrt.library.flavours import find


class Selector(sk.SubgraphSelector):
    def __init__(self, block):
        self.block = block

    def select(self, node):
        if self.block is None:
            self.block = node.id // 4
        return node.id // 4 == self.block


class Blocks(sk.SubgraphProperty):
    def __init__(self, options):
        self.options = options

    def create_selector(self, graph):
        return Selector(None)

    def create_operator(self, subgraph, context):
        with open(os.environ["BUILT"], "a") as file:
            file.write(f"{subgraph.id}\\n")
        library = find("tensorrt_rtx").library
        context = replace(context, options=self.options)
        ranges = buckets_at_bind(subgraph, context)
        return Kept([build.build_engine(subgraph, context, library, ranges)])


class Kept(sk.SubgraphOperator):
    def __init__(self, plans):
        self.plans = plans

    def run(self, inputs, outputs=None):
        raise RuntimeError("there is no GPU")

    def serialize(self):
        return write_plans(self.plans)


class PlanBuilder(sk.Backend):
    name = "plan_builder"

    def properties(self):
        return [Blocks(Options())]

    def fingerprint(self):
        return find("tensorrt_rtx").library.capabilities.version

    def deserialize(self, blob, subgraph):
        return Kept(read_plans(blob))
'''
PROGRAM = """
import sys
import onnx
import subgraphkit as sk
from plan_builder import PlanBuilder

bound = sk.bind(sk.load("blocks.onnx"), {"batch": 2, "seq": 16}, backend=[PlanBuilder])
print(len(sk.compile_subgraphs(sk.partition(bound)).restored))
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the backend and a model of twelve equal blocks."""
    (tmp_path / "plan_builder.py").write_text(BUILDER)
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "blocks.onnx").write_bytes(blocks((0,) * 12).SerializeToString())
    monkeypatch.setenv("BUILT", str(tmp_path / "built"))
    monkeypatch.setenv("SUBGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def _start(place: Path) -> "subprocess.Popen[str]":
    packages = str(Path(build.__file__).parents[2])
    path = os.pathsep.join([packages, str(place), *filter(None, sys.path)])
    return subprocess.Popen(
        [sys.executable, "program.py"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )


def _built(place: Path) -> list[str]:
    return (place / "built").read_text().split()


def test_twelve_equal_blocks_are_built_once_and_a_second_bind_builds_nothing(place: Path) -> None:
    for restored in (11, 12):
        child = _start(place)
        assert child.communicate(timeout=300)[0] == f"{restored}\n"
        assert _built(place) == ["plan_builder_0"]


def test_two_processes_that_need_the_same_plan_build_it_once(place: Path) -> None:
    children = [_start(place) for _ in range(2)]
    restored = [int(child.communicate(timeout=300)[0]) for child in children]
    assert sorted(restored) == [11, 12]
    assert _built(place) == ["plan_builder_0"]


def test_a_damaged_plan_is_built_again(place: Path) -> None:
    _start(place).communicate(timeout=300)
    (engine,) = (place / "cache").rglob("*.engine")
    stored = bytearray(engine.read_bytes())
    stored[len(stored) // 2] ^= 1
    engine.write_bytes(stored)
    assert _start(place).communicate(timeout=300)[0] == "11\n"
    assert _built(place) == ["plan_builder_0"] * 2


WHEELS = frozenset(
    # all of tensorrt-cu12-bindings that its registry has, from the oldest supported on
    [
        "10.0.1",
        "10.1.0",
        "10.2.0",
        "10.2.0.post1",
        "10.3.0",
        "10.4.0",
        "10.5.0",
        "10.6.0",
        "10.6.0.post1",
        "10.6.0.post2",
        "10.7.0",
        "10.7.0.post1",
        "10.8.0.43",
        "10.9.0.34",
        "10.10.0.31",
        "10.11.0.33",
        "10.12.0.36",
        "10.13.0.35",
        "10.13.2.6",
        "10.13.3.9",
        "10.13.3.9.post1",
        "10.14.1.48",
        "10.14.1.48.post1",
        "10.15.1.29",
        "10.16.0.72",
        "10.16.1.11",
        "11.0.0.114",
        "11.1.0.106",
        "11.2.1.2",
        "11.3.0.99",
        "11.4.0.106",
    ]
)
WHEELS_OF_RTX = ["1.4.0.76", "1.5.0.114", "1.6.1.120", "1.7.1.116"]
BUILD_NUMBER = 23


def _header(version: str, magic: bytes) -> bytes:
    """Return a plan of a release as far as its header, with all four numbers, as builders write."""
    numbers = (*release_of(version), BUILD_NUMBER)[:4]
    return magic + bytes(12) + (28).to_bytes(4, "little") + bytes(4) + bytes(numbers)


@pytest.mark.parametrize("version", [*sorted(WHEELS), "10.0.0b6", "10.7.0+cu12", "10.7.0rc1"])
def test_a_plan_is_found_again_by_every_wheel_that_built_it(version: str) -> None:
    plan = _header(version, b"ftrt")
    assert plan_problem(plan, "tensorrt", version) == ""
    others = [one for one in WHEELS if release_of(one)[:3] != release_of(version)[:3]]
    assert all("was built by" in plan_problem(plan, "tensorrt", other) for other in others)


def test_versions_are_their_numbers_and_nothing_after_them() -> None:
    assert release_of("10.7.0.post1") == (10, 7, 0)
    assert release_of("10.14.1.48.post1") == (10, 14, 1, 48)
    assert release_of(" 11.0.0rc2+cu13") == (11, 0, 0)
    assert release_of("unknown") == ()
    assert [len(release_of(one)) for one in WHEELS_OF_RTX] == [4] * 4
    plans = [_header(one, b"vtrt") for one in WHEELS_OF_RTX]
    fits = [plan_problem(plan, "tensorrt_rtx", "1.6.1.120") == "" for plan in plans]
    assert fits == [False, False, True, False]
