"""A place to open sessions from, where nothing else has a say, and backends by a clock."""

import onnx
import pytest

import subgraphkit as sk
from subgraphkit.compiling import compilation
from subgraphkit.placing import measuring, tuning_loop
from subgraphkit.running import observing, profiling
from tests.models import LINEAR, parsed
from tests.unit.placing.made_up import Clock, Operator


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Work in an empty folder with a model in it, with no setting from outside."""
    monkeypatch.setenv("SUBGRAPH_CONFIG", "none")
    monkeypatch.chdir(tmp_path)
    onnx.save(parsed(LINEAR), "m.onnx")
    return tmp_path


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    for module in (tuning_loop, measuring, observing, profiling, compilation):
        monkeypatch.setattr(module, "time", made)
    monkeypatch.setattr(measuring, "_others_seconds", lambda: None)
    return made


@pytest.fixture
def register(clock):
    """Return a function that registers a backend with made-up seconds."""
    known: list[str] = []

    def made(called, seconds, *, takes=("Sigmoid", "Tanh"), off=0.0, compiles=0.0, short=None):
        class Property(sk.SubgraphProperty):
            precision = "f32"

            def create_selector(self, graph):
                return sk.OpSelector(graph, list(takes))

            def create_operator(self, subgraph, context):
                clock.sleep(compiles * len(subgraph.members))
                faster, wrong = 1.0, off
                if self.precision == "bf16" and short is not None:
                    faster, wrong = short([node.op_type for node in subgraph.members])
                return Operator(subgraph, lambda names: clock.spend(seconds(names) * faster), wrong)

        class Made(sk.Backend):
            name = called
            options = (sk.Option("precision", "enum", "f32", choices=("f32", "bf16")),)

            @classmethod
            def probe(cls, *, deep=False):
                return sk.ProbeResult(available=True, precisions=("bf16",) if short else ())

            def properties(self):
                found = Property()
                found.precision = self.option_values.precision
                return [found]

        sk.register_backend(Made)
        known.append(called)

    yield made
    for name in known:
        sk.unregister_backend(name)
