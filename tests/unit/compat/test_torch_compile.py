"""``torch.compile`` with us as the backend; ``make torch`` installs what it needs."""

import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from tests.scripts import run_child

torch = pytest.importorskip("torch", reason="PyTorch is not installed; see make torch")
pytest.importorskip("onnxscript", reason="onnxscript is not installed; see make torch")

from torch import nn  # noqa: E402 (what is not installed is skipped first)

import subgraphkit as sk  # noqa: E402 (as above)
from subgraphkit.compat.torch_compile import compile_graph  # noqa: E402 (as above)


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution, self.groups = nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8)
        self.batch, self.head = nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, x):
        return self.head(torch.relu(self.batch(self.groups(self.convolution(x)))).mean((2, 3)))


class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        x = torch.relu(self.first(x))
        if x.sum() > 0:  # a branch that depends on data
            x = x * 2
        return self.second(x)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, 16), nn.Linear(12, 3)
        self.recurrent = nn.LSTM(16, 12, batch_first=True)

    def forward(self, words):
        values, (hidden, _) = self.recurrent(self.embedding(words))
        return self.head(values), hidden


def perceptron():
    return nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 4))


MODULES: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Any]]] = {
    "perceptron": (perceptron, lambda n: torch.randn(n, 8)),
    "convolutions": (Convolutions, lambda n: torch.randn(n, 3, 16, 16)),
    "encoder": (
        lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True),
        lambda n: torch.randn(2, n + 3, 32),
    ),
    "broken": (Broken, lambda n: torch.randn(n, 8)),
    "words": (Words, lambda n: torch.randint(0, 50, (n, 7))),
}


@pytest.fixture(autouse=True)
def quiet():
    torch.manual_seed(0)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns of its own parts
        yield
    torch._dynamo.reset()


def compiled(module, **options):
    return torch.compile(module, backend=compile_graph, options={"backends": "numpy", **options})


@pytest.mark.parametrize("name", MODULES)
def test_a_module_agrees_with_itself_for_several_sizes(name):
    make, feed = MODULES[name]
    module = make().eval()
    run = compiled(module)
    with torch.no_grad():
        for size in (2, 2, 5, 7):
            x = feed(size)
            torch.testing.assert_close(run(x), module(x), rtol=1e-4, atol=1e-5)


def test_the_backend_is_known_by_its_name():
    found = torch._dynamo.list_backends(exclude_tags=())
    if "subgraphkit" not in found:
        pytest.skip("this tree was installed before it had the entry point")
    module, x = perceptron().eval(), torch.randn(2, 8)
    torch.testing.assert_close(torch.compile(module, backend="subgraphkit")(x), module(x))


def test_one_model_serves_every_size_once_sizes_are_open(monkeypatch):
    made = []
    monkeypatch.setattr(
        "subgraphkit.compat.torch_compile.InferenceSession",
        lambda *given, **settings: made.append(sk.InferenceSession(*given, **settings)) or made[-1],
    )
    module = perceptron().eval()
    run = torch.compile(module, backend=compile_graph, options={"backends": "numpy"}, dynamic=True)
    with torch.no_grad():
        for size in (3, 4, 9):
            x = torch.randn(size, 8)
            torch.testing.assert_close(run(x), module(x))
    assert len(made) == 1
    assert {one.backend for one in made[0].partitioning.subgraphs} == {"numpy"}


def test_weights_that_change_are_noticed():
    module, x = perceptron().eval(), torch.randn(2, 8)
    run = compiled(module)
    with torch.no_grad():
        before = run(x)
        module[0].weight.mul_(2)
        torch.testing.assert_close(run(x), module(x))
        module[2].bias = nn.Parameter(torch.ones(4))
        torch.testing.assert_close(run(x), module(x))
    assert not torch.equal(before, run(x))


def test_no_gradient_is_computed_in_silence():
    module, x = perceptron().eval(), torch.randn(2, 8)
    result = compiled(module)(x)
    torch.testing.assert_close(result, module(x))
    with pytest.raises(sk.SubgraphkitError, match="SGK241"):
        result.sum().backward()


def test_a_graph_that_changes_its_input_is_refused():
    def change(x):
        x.add_(1)
        return x * 2

    run = torch.compile(change, backend=compile_graph, options={"backends": "numpy"})
    with pytest.raises(Exception, match=r"SGK240.*in place"), torch.no_grad():
        run(torch.zeros(2))


def test_short_floats_booleans_and_numbers_go_in_and_out():
    def several(x, mask):
        return x * 2, mask & (x > 0), x.sum().to(torch.int64)

    run = torch.compile(several, backend=compile_graph, options={"backends": "numpy"})
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        x, mask = torch.arange(-2, 3, dtype=dtype), torch.tensor([True, False, True, True, False])
        with torch.no_grad():
            for ours, theirs in zip(run(x, mask), several(x, mask), strict=True):
                assert torch.equal(ours, theirs)
                assert ours.dtype == theirs.dtype


def test_an_unknown_setting_is_refused():
    with pytest.raises(Exception, match="SGK114"), torch.no_grad():
        compiled(perceptron().eval(), bakends="numpy")(torch.randn(2, 8))


def test_pytorch_is_imported_by_its_own_door_alone():
    program = "import sys, subgraphkit as sk; sk.InferenceSession; print('torch' in sys.modules)"
    done = run_child([sys.executable, "-c", program])
    assert done.stdout.strip() == "False"
