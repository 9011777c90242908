"""Which backends take part: what was bound, what the call says, and the fallback."""

import pytest

import subgraphkit as sk
from subgraphkit.compiling import compile_elsewhere
from subgraphkit.configuration.names import BACKEND_NAMES
from subgraphkit.errors import UnclaimedNodesError
from subgraphkit.finding.catalogue import CATALOGUE
from subgraphkit.finding.registry import registered
from subgraphkit.partitioning import partition
from tests.fakes import claiming
from tests.models import DIAMOND, parsed


@pytest.fixture(autouse=True)
def backends():
    with (
        registered(claiming(["Relu"], "relus")),
        registered(claiming(["Relu", "Neg"], "negs")),
        registered(claiming(["Relu", "Neg", "Abs", "Add"], "everything")),
    ):
        yield


def diamond(**settings):
    return sk.bind(sk.load(parsed(DIAMOND)), **settings)


def names(found):
    return [one.backend for one in found.subgraphs]


def test_the_call_goes_before_the_bind_and_leaves_its_other_settings_alone():
    bound = diamond(backend="relus", fallback="everything")
    assert names(partition(bound, "negs")) == ["negs", "everything"]
    assert names(partition(bound, ["relus", ("negs", {})])) == ["relus", "negs", "everything"]
    with pytest.raises(UnclaimedNodesError):
        partition(diamond(backend="relus", fallback="everything", strict=True), "negs")


def test_a_fallback_that_is_listed_claims_in_its_place_and_only_there():
    found = partition(diamond(fallback="everything"), ["everything", "relus"])
    assert names(found) == ["everything"]
    assert found.backends == ("everything", "relus")
    assert not found.claim_of(found.subgraphs[0]).is_fallback


def only(monkeypatch, *installed):
    """Make an environment in which no other backend is installed."""
    records = [record for record in CATALOGUE.records() if record.name in installed]
    monkeypatch.setattr(CATALOGUE, "records", lambda: records)
    monkeypatch.setattr(BACKEND_NAMES, "is_installed", lambda name: name in installed)


def test_without_numpy_the_fallback_is_the_first_that_takes_every_node(monkeypatch):
    only(monkeypatch, "relus", "everything")
    found = partition(diamond(), "relus")
    assert names(found) == ["relus", "everything"]
    assert [found.claim_of(one).is_fallback for one in found.subgraphs] == [False, True]


def test_auto_stops_at_the_backend_that_takes_the_last_node(monkeypatch):
    only(monkeypatch, "everything", "relus")  # which rank by name
    found = partition(diamond(), "auto")
    assert names(found) == ["everything"]
    assert found.backends == ("everything",)


def test_without_any_fallback_the_error_says_which_nodes_and_what_to_install(monkeypatch):
    only(monkeypatch, "relus")
    with pytest.raises(UnclaimedNodesError) as caught:
        partition(diamond(), "relus")
    assert caught.value.context["nodes"] == (1, 2, 3)
    assert 'pip install "subgraphkit[numpy]"' in str(caught.value)


def test_without_a_fallback_there_is_nothing_to_compile_on():
    found = partition(diamond(fallback="none"), "everything")
    with pytest.raises(LookupError, match="no fallback backend is available"):
        compile_elsewhere(found, found.subgraphs[0])


def left_over(text, **settings):
    model = sk.load(parsed(text, imports='"com.acme": 1, "com.microsoft": 1'))
    with pytest.raises(UnclaimedNodesError) as caught:
        partition(sk.bind(model, **settings))
    return str(caught.value)


def test_a_backend_of_a_foreign_domain_is_named_where_it_is_registered():
    with registered(claiming(["com.acme::Foo"], "acme")):
        text = "g (float[2] x) => (y) { c = Neg(x) y = com.acme.Foo(x) }"
        told = left_over(text, backend="numpy")
    assert "Backend 'acme' takes them: add 'acme' to the backends." in told
    assert "Install or write a backend" not in told


def test_a_node_of_a_foreign_domain_needs_a_backend_of_its_own():
    told = left_over("g (float[2] x) => (y) { y = com.acme.Foo(x) }", backend="numpy")
    assert "Install or write a backend for the operators of domain 'com.acme'" in told
    assert "pip install" not in told


@pytest.mark.parametrize("is_installed", [False, True])
def test_an_operator_of_onnx_runtime_is_sent_to_its_backend(monkeypatch, *, is_installed):
    known = BACKEND_NAMES.is_installed
    monkeypatch.setattr(
        BACKEND_NAMES,
        "is_installed",
        lambda name: is_installed if name == "onnxruntime" else known(name),
    )
    told = left_over("g (float[2,2] x) => (y) { y = com.microsoft.Trilu(x) }", backend="numpy")
    assert "add 'onnxruntime' to the backends" in told
    assert ("Backend 'onnxruntime' takes them" in told) is is_installed
    assert ("pip install 'subgraphkit-onnxruntime[cpu]'" in told) is not is_installed
    assert "Install or write a backend" not in told
