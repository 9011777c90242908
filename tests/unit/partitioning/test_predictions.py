"""Predicted costs: what auto goes by where nothing is stored."""

import pytest

import subgraphkit as sk
from subgraphkit.finding.catalogue import CATALOGUE
from subgraphkit.finding.registry import registered
from subgraphkit.partitioning import predictions
from subgraphkit.partitioning.predictions import Predictions
from tests.fakes import claiming
from tests.models import parsed

MIXED = """g (float[1, {size}] x) => (float[1, {size}] y) {{
  a = Relu(x)  b = Neg(a)  c = Relu(b)  d = Neg(c)  y = Abs(d)
}}"""
EVERYTHING = ["Relu", "Neg", "Abs"]


def bound(text, **settings):
    """Bind for ``auto``; what other tests measured in this process takes no part."""
    chosen = {"backend": "auto", "fallback": "none", "cache": "cache_dir" in settings, **settings}
    return sk.bind(sk.load(parsed(text)), **chosen)


def mixed(size, **settings):
    return bound(MIXED.format(size=size), **settings)


def products(size, **settings):
    square = f"float[{size}, {size}]"
    return bound(f"g ({square} x) => ({square} y) {{ y = MatMul(x, x) }}", **settings)


@pytest.fixture
def some():
    """Install three fakes alone; they rank by name."""
    with (
        registered(claiming(["Relu"], "a_relus", connectivity="connected")),
        registered(claiming(["Neg", "Abs"], "b_others", connectivity="connected")),
        registered(claiming(EVERYTHING, "c_all", connectivity="connected")),
    ):
        yield


def only(monkeypatch, *installed):
    records = [record for record in CATALOGUE.records() if record.name in installed]
    monkeypatch.setattr(CATALOGUE, "records", lambda: records)


def homes(found):
    return [(one.backend, len(one.nodes)) for one in found.subgraphs]


@pytest.mark.usefixtures("some")
def test_auto_gives_small_regions_back_and_says_why(monkeypatch):
    only(monkeypatch, "a_relus", "c_all")
    small = sk.partition(mixed(4))
    assert homes(small) == [("c_all", 5)]
    (refused,) = [one for one in small.to_dict()["refusals"] if one["node"] == 2]
    assert (refused["backend"], refused["code"]) == ("a_relus", "not_worth")
    assert refused["text"] == "not worth handing over: 1 node, 20.00% of the work, 2 values cross"
    large = sk.partition(mixed(1 << 22))
    assert homes(large) == [("a_relus", 1), ("c_all", 1), ("a_relus", 1), ("c_all", 2)]
    named = sk.partition(mixed(4), "a_relus,c_all")
    assert homes(named) == homes(large)  # who is named keeps what it claims


@pytest.mark.usefixtures("some")
def test_auto_keeps_small_regions_that_nobody_else_takes(monkeypatch):
    only(monkeypatch, "a_relus", "b_others")
    found = sk.partition(mixed(4))
    assert [name for name, _ in homes(found)] == ["a_relus", "b_others"] * 2


def test_a_cheap_start_minds_the_threads_and_who_is_slow_at_lrn(monkeypatch):
    names = ["onednn", "onnxruntime"]  # by the table the second takes 0.91 of the first
    for threads, has, turn in ((1, "avx2", 1), (1, "avx512f", -1), (2, "avx2", -1)):
        monkeypatch.setattr(predictions, "processor_name", lambda has=has: has)
        product = products(2048, threads=threads)
        assert Predictions(product, product.settings).rank_backends(names) == names[::turn]
    names = ["onnxruntime", "openvino"]
    model = bound("g (float[1,96,54,54] x) => (float[1,96,54,54] y) { y = LRN<size=5>(x) }")
    assert Predictions(model, model.settings).rank_backends(names) == names[::-1]


def test_openvino_is_dearer_by_every_node_where_sizes_are_open_but_of_pictures():
    moves = "".join(f"x{at + 1} = Exp(x{at})  " for at in range(40))
    names, found = ["onnxruntime", "openvino"], []
    for sizes in ("N, 2048", "4096, 2048", "N, 3, H, W"):
        edge = f"float[{sizes}]"
        last = "z = GlobalAveragePool(x40) y = Conv(z, w)" if "H" in sizes else "y = Neg(x40)"
        body = f"<float[3,3,1,1] w = {{1,1,1,1,1,1,1,1,1}}> {{ {moves} {last} }}"
        model = bound(
            f"g ({edge} x0) => (float[{sizes.replace('H, W', '1, 1')}] y) {body}", threads=1
        )
        found.append(Predictions(model, model.settings).rank_backends(names))
    assert found == [names, names[::-1], names[::-1]]


def test_backends_change_places_only_where_one_is_faster_by_a_twentieth(tmp_path):
    product = products(512, cache_dir=tmp_path)
    names = ["tensorrt", "onnxruntime", "openvino", "third_party", "numpy"]
    costs = Predictions(product, product.settings)
    assert costs.rank_backends(names) == names  # by the table openvino is faster, but not enough
    assert costs.of("third_party", product.order) is None


def test_a_backend_passes_every_one_that_it_is_clearly_faster_than(monkeypatch):
    product = products(512)
    row = dict(zip(("onednn", "openvino", "onnxruntime"), (1.0, 0.97, 0.94), strict=True))
    monkeypatch.setitem(predictions._COSTS, "product", row)
    ranked = Predictions(product, product.settings).rank_backends([*row])
    assert ranked == ["onnxruntime", "onednn", "openvino"]


def test_a_library_is_opened_only_where_it_can_win(tmp_path):
    names = ["onnxruntime", "onednn", "tvm", "numpy"]
    small, large = (products(size, cache_dir=tmp_path) for size in (4, 512))

    def opened(model, fallback):
        costs = Predictions(model, model.settings)
        candidates = costs.candidates(names, fallback)
        first = [next(iter(candidates))]
        costs.left = model.order
        return first + list(candidates)

    assert opened(small, "numpy") == ["numpy"]  # a run of one node is quicker there
    assert opened(large, "numpy") == ["onnxruntime", "onednn", "numpy"]
    assert sorted(opened(small, "none")) == sorted(names)  # nobody else would run them
