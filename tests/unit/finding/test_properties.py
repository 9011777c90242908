"""Properties added to a backend from outside."""

from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from subgraphkit.backend import Backend, OpSelector, SubgraphProperty, SubgraphSelector
from subgraphkit.errors import BackendLoadError, SelectorContractError
from subgraphkit.finding.loading import properties_of, register_property, unregister_property
from subgraphkit.ir import BoundGraph


class Own(SubgraphProperty):
    name = "own"

    def create_selector(self, graph: BoundGraph) -> SubgraphSelector:
        return OpSelector(graph, ["Relu"])


class Added(Own):
    name = "added"


class Alpha(Backend):
    name = "alpha"

    def properties(self) -> Sequence[SubgraphProperty]:
        return [Own()]


@pytest.fixture
def _added() -> Iterator[None]:
    register_property("alpha", Added)
    yield
    unregister_property("alpha", Added)


@pytest.mark.usefixtures("_added")
def test_an_added_property_comes_before_the_backends_own() -> None:
    assert [one.name for one in properties_of(Alpha())] == ["added", "own"]


@pytest.mark.usefixtures("_added")
def test_a_property_added_twice_is_applied_once() -> None:
    register_property("alpha", Added)
    assert len(properties_of(Alpha())) == 2


@pytest.mark.parametrize(("name", "added"), [("alpha", Alpha), ("alpha", Own()), ("Bad", Own)])
def test_what_is_no_property_is_not_added(name: str, added: object) -> None:
    with pytest.raises(BackendLoadError, match="SGK115"):
        register_property(name, added)


def test_a_property_that_was_not_added_cannot_be_removed() -> None:
    with pytest.raises(BackendLoadError, match="was not registered"):
        unregister_property("alpha", Own)


@pytest.mark.parametrize("properties", [lambda _: 1 / 0, lambda _: [3], lambda _: None])
def test_a_backend_that_breaks_its_contract_is_named(properties: object) -> None:
    bad = type("Bad", (Alpha,), {"properties": properties})()
    with pytest.raises(SelectorContractError, match=r"SGK122.*backend 'alpha'"):
        properties_of(bad)


@pytest.mark.usefixtures("_added")
def test_a_class_that_is_defined_anew_takes_the_place_of_the_old() -> None:
    again = type("Added", (Added,), {"__module__": Added.__module__, "name": "anew"})
    register_property("alpha", again)
    assert [one.name for one in properties_of(Alpha())] == ["anew", "own"]
    register_property("alpha", Added)


def test_it_serves_as_a_decorator_for_a_backend_that_does_not_exist_yet() -> None:
    @partial(register_property, "not_installed")
    class Early(Own):
        name = "early"

    late = type("Late", (Alpha,), {"name": "not_installed"})()
    assert [one.name for one in properties_of(late)] == ["early", "own"]
    unregister_property("not_installed", Early)
    assert [one.name for one in properties_of(late)] == ["own"]
