"""Steps of a state are runs whose results are fed by hand."""

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.errors import InputError
from tests.models import parsed

_GROWS = """g (float[B,S,2] x, float[B,P,2] past_k, float[B,Q,2] past_v)
    => (float[B,S,2] y, float[B,T,2] present_k, float[B,U,2] present_v) {
  present_k = Concat<axis=1>(past_k, x) z = Add(x, x) present_v = Concat<axis=1>(past_v, z)
  t = Transpose<perm=[0,2,1]>(present_k) w = MatMul(x, t) p = Softmax(w) y = MatMul(p, present_v)
}"""
_MERGED = """g (float[B,S,2] x, int64[1] at, float[B,P,2] past_k, float[B,E,2] past_e)
    => (float[B,S,2] y, float[B,T,2] present_k, float[C,F,2] present_e) <float[0,1,2] none = {}> {
  present_k = Concat<axis=1>(past_k, x) later = Cast<to=9>(at)
  e, present_e = If (later) <
    then_branch = a () => (float[B,G,2] used, float[C,F,2] gone)
      { used = Identity(past_e) gone = Identity(none) },
    else_branch = b () => (float[B,G,2] made, float[C,F,2] kept) { made = Neg(x) kept = Neg(x) }>
  w = Concat<axis=1>(e, present_k) s = ReduceSum<keepdims=1>(w) y = Mul(x, s)
}"""
_KEEPS = """g (float[1,1,2] x, int64[1] at, float[1,6,2] past_k)
    => (float[1,1,2] y, float[1,6,2] present_k) {
  present_k = TensorScatter<axis = 1>(past_k, x, at) s = ReduceSum(present_k) y = Mul(x, s)
}"""


def _by_hand(session, steps):
    pasts = [name for name in session.graph.inputs if name.startswith("past")]
    held = {name: np.zeros((1, 6 * (session.graph.shape(name)[1] == 6), 2), "f") for name in pasts}
    for place, feeds in enumerate(steps):
        y, *made = session.run(None, feeds | held)
        held |= {n: one for n, one in zip(pasts, made, strict=True) if n != "past_e" or not place}
        yield y


@pytest.mark.filterwarnings("ignore::subgraphkit.errors.SubgraphkitWarning")
@pytest.mark.parametrize("backend", ["onnxruntime", "openvino,numpy", "numpy"])
@pytest.mark.parametrize("body", [_GROWS, _MERGED, _KEEPS], ids=["grows", "merged", "keeps"])
def test_a_state_is_fed_what_it_returned_and_goes_on_where_it_forks(body, backend):
    x = np.random.default_rng(0).random((6, 1, 1, 2), np.float32)
    with sk.InferenceSession(parsed(body, opset=24), backend) as session:
        steps = [{"x": x[at], "at": np.array([at])} for at in range(6)]
        steps = [
            {n: one for n, one in feeds.items() if n in session.graph.inputs} for feeds in steps
        ]
        state = sk.State(session, {"past_*": "present_*"}, once="*_e")
        found = [state.run(None, feeds)[0] for feeds in steps[:2]]
        before, other = dict(state.values), state.fork()
        ends = steps[2:4], [steps[3], steps[2]]
        ways = [
            [one.run(["y"], feeds)[0] for feeds in end]
            for one, end in zip((state, other), ends, strict=True)
        ]
        for way, end in zip(ways, ends, strict=True):
            np.testing.assert_array_equal([*found, *way], list(_by_hand(session, steps[:2] + end)))
        assert (state.values["past_k"] is before["past_k"]) is (body is _KEEPS)
        state.reset()
        np.testing.assert_array_equal(state.run(None, steps[0])[0], found[0])


def test_a_state_begins_with_what_it_is_given_and_writes_to_none_of_it():
    with sk.InferenceSession(parsed(_KEEPS, opset=24), "onnxruntime") as session:
        state, feeds = sk.State(session, {"past_k": "present_k"}), {"x": np.ones((1, 1, 2), "f")}
        given = np.full((1, 6, 2), 2, np.float32)
        state.reset({"past_k": given})
        y, present = state.run(["y", "present_k"], feeds | {"at": np.array([1])})
        state.run(None, feeds | {"at": np.array([2])})
        assert (y == 22).all()
        assert present[0, :, 0].tolist() == [2, 1, 2, 2, 2, 2]
        assert (given == 2).all()
        with pytest.raises(InputError, match=r"SGK142.*'past_k' is fed by the state"):
            state.run(None, feeds | {"past_k": given})


@pytest.mark.parametrize(("pairs", "message"), [
    ({"past_key_values.*": "present.*"}, r"SGK142.*no input 'past_key_values\.\*'"),
    ({"past_*": "next_*"}, "SGK143.*no output 'next_k'"),
    ({"at": "present_k"}, r"SGK141.*'present_k' is tensor\(float\); 'at' takes tensor\(int64\)"),
])  # fmt: skip
def test_pairs_that_the_model_does_not_have_are_refused(pairs, message):
    session = sk.InferenceSession(parsed(_KEEPS, opset=24), "numpy")
    with pytest.raises(InputError, match=message):
        sk.State(session, pairs)
