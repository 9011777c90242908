"""Random graphs give the same bits whether what is known at bind was computed then or not."""

import numpy as np

import subgraphkit as sk
from tests.campaign.bodies import grow
from tests.campaign.growing import grown


def bits(value):
    if isinstance(value, list):
        return [bits(one) for one in value]
    array = np.asarray(value)
    return array.dtype, array.shape, array.tolist() if array.dtype == object else array.tobytes()


def results(seed, *, fold):
    """Return what a graph of a seed makes or fails with, and what became of nodes that left it."""
    model, feeds = grown(seed, grow) or (None, {})
    if model is None:
        return None, []
    try:
        with np.errstate(all="ignore"), sk.InferenceSession(model, "numpy", fold=fold) as session:
            made = [bits(one) for one in session.run(None, feeds)]
            return made, list(session.graph.left_out.values())
    except sk.SubgraphkitError as error:
        return error.code, []


def test_random_graphs_agree_bit_for_bit_folded_and_unfolded(pytestconfig):
    became: list[str] = []
    for seed in range(pytestconfig.getoption("--folded-graphs")):
        (unfolded, none), (folded, some) = (results(seed, fold=fold) for fold in (False, True))
        assert (unfolded, none) == (folded, []), seed
        became += some
    assert became.count("computed at bind") > 40
    assert any("branch" in one for one in became)
