"""However a real model is cut, it computes the same, bit for bit."""

import random
from itertools import count, islice

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from subgraphkit.backend import NodeSelector
from subgraphkit.testing import light_models
from tests.fakes import claiming
from tests.models import skip_if_large


def random_half(seed):
    """Make a backend that claims nodes by lot and runs them where everything else runs."""
    lot = random.Random(seed)
    share = lot.choice([0.1, 0.5, 0.9])
    connectivity = lot.choice(["any", "connected"])

    by_lot = NodeSelector(lambda node: random.Random(f"{seed} {node.id}").random() < share)
    default = sk.SubgraphProperty.create_operator
    return claiming(lambda _: by_lot, "half", connectivity=connectivity, create_operator=default)


Network = tuple[onnx.ModelProto, dict[str, np.ndarray]]


@pytest.fixture(scope="module", params=light_models.LIGHT_MODELS)
def network(request):
    skip_if_large(request.param, request.config)
    proto = light_models.seeded_model(request.param)
    return proto, light_models.seeded_feeds(proto)


def test_a_model_cut_at_random_computes_the_same_bits(network, pytestconfig):
    cut_count = pytestconfig.getoption("--cuts-per-model")
    whole, *others = results(*network, cut_count)
    for other in others:
        np.testing.assert_equal(other, whole)


def results(proto, feeds, cut_count):
    """Run a model whole, and then cut at random again and again."""
    bound = sk.bind(sk.load(proto), backend="numpy")
    yield run(sk.partition(bound), feeds)
    for partitioning in islice(cuts(bound), cut_count):
        yield run(partitioning, feeds)


def cuts(bound):
    """Cut a model; where the lot takes no node there is no cut."""
    for seed in count():
        partitioning = sk.partition(bound, [random_half(seed), "numpy"])
        if len(partitioning.subgraphs) > 1:
            yield partitioning


def run(partitioning, feeds):
    with sk.Session(sk.plan(partitioning, sk.compile_subgraphs(partitioning))) as session:
        return session.run(None, feeds)
