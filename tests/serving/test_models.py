"""Models are asked by name over the Open Inference Protocol, and exchanged while they are asked."""

import asyncio
import gzip
import json
import zlib

import numpy as np
import onnx
import pytest
from prometheus_client.parser import text_string_to_metric_families

import subgraphkit as sk
from subgraphkit.errors import InputError, ModelNotFoundError
from subgraphkit.serving import oip
from subgraphkit.serving.http import answer
from subgraphkit.serving.metrics import Metrics
from subgraphkit.serving.models import Models
from tests.fakes import extended
from tests.models import parsed

X = np.arange(8, dtype=np.float32).reshape(2, 4)


def text(models, name):
    return sk.SessionSpec.of(models / f"{name}.onnx", backend="numpy", threads=1).to_json()


def ask(models, path, body=b"", **headers):
    """Ask once, outside of a loop; JSON is read."""
    method = "POST" if path.endswith("infer") else "GET"
    status, found, sent = asyncio.run(answer(models, method, path, headers, body))
    return status, json.loads(sent) if found["Content-Type"] == "application/json" else sent


@pytest.fixture
def served(models):
    made = Models()
    specs = {name: text(models, name) for name in ("negation", "doubling")}
    asyncio.run(made.exchange(specs))
    return made


def test_a_server_says_what_it_is_and_what_its_models_take(served):
    assert ask(served, "/v2")[1]["name"] == "subgraphkit"
    assert ask(served, "/v2/health/live") == (200, {"live": True})
    assert ask(served, "/v2/health/ready/") == (200, {"ready": True})
    status, said = ask(served, "/any/prefix/v2/models/doubling")
    assert status == 200
    assert said["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    version = f"/v2/models/doubling/versions/{said['versions'][0]}"
    assert ask(served, version)[1] == said
    assert ask(served, f"{version}/ready")[0] == 200
    assert asyncio.run(answer(served, "GET", f"{version}/infer", {}, b""))[0] == 405


def test_a_model_may_be_named_as_the_protocol_is(models):
    served = Models()
    asyncio.run(served.exchange({"v2": text(models, "doubling")}))
    assert ask(served, "/v2/models/v2")[1]["name"] == "v2"
    assert ask(served, "/any/v2/models/v2/ready")[0] == 200
    assert ask(served, "/v2/models/v2/versions/v2")[0] == 404


def test_it_answers_in_json_and_in_binary(served):
    for binary in (False, True):
        sent = oip.encode_request(oip.InferenceRequest({"x": X}, {"z": binary}, binary, "seven"))
        headers = {name: value for name, value in sent.headers.items() if name == oip.HEADER}
        asked = answer(served, "POST", "/v2/models/negation/infer", headers, sent.body)
        status, said, body = asyncio.run(asked)
        assert status == 200
        found = oip.decode_response(body, said.get(oip.HEADER))
        assert list(found) == ["z"]
        assert np.array_equal(found["z"], -X.reshape(-1, 2, 2))


@pytest.mark.parametrize(("path", "body", "status", "code"), [
    ("/v2/models/other", b"", 404, "SGK341"),
    ("/v2/models/doubling/versions/9", b"", 404, "SGK341"),
    ("/v2/modules", b"", 404, "SGK341"),
    ("/", b"", 404, "SGK341"),
    ("/v2/models/doubling/infer", b"{", 400, "SGK343"),
    ("/v2/models/doubling/infer", b'{"inputs": []}', 400, "SGK142"),
])  # fmt: skip
def test_what_cannot_be_answered_has_a_status_and_a_code(served, path, body, status, code):
    found, said = ask(served, path, body)
    assert found == status
    assert said["error"].startswith(f"[{code}]")


def test_a_model_is_named_where_there_are_several(served):
    with pytest.raises(InputError, match=r"SGK341.*no model ''"):
        served.find()
    assert np.array_equal(asyncio.run(served.find("doubling").run({"x": X}))[0], X + X)


async def _exchanged_meanwhile(before, after):
    served = Models()
    await served.exchange({"m": before})
    old = served.find("m")
    under_way = [asyncio.create_task(served.find().run({"x": X})) for _ in range(20)]
    await asyncio.sleep(0)
    await served.exchange({"m": after})
    results = [(await one)[0] for one in under_way]
    assert all(np.array_equal(one, -X) for one in results)
    assert np.array_equal((await served.find().run({"x": X}))[0], X + X)
    with pytest.raises(sk.SubgraphkitError, match="SGK144"):  # closed, when nobody waited for it
        old.session.run(None, {"x": X})


def test_an_exchange_lets_requests_end_where_they_began(models):
    asyncio.run(_exchanged_meanwhile(text(models, "negation"), text(models, "doubling")))


async def _pinged_meanwhile(specs):
    served = Models()
    await served.exchange(specs)
    for after in ({"m": one} for one in specs.values()):
        ping = asyncio.create_task(served.ping())
        await asyncio.sleep(0)
        await asyncio.gather(served.exchange(after), served.exchange(after))
        await ping  # of sessions that were exchanged by then
        await served.exchange(specs)


def test_an_exchange_waits_for_pings_and_for_other_exchanges(models):
    specs = {name: text(models, name) for name in ("negation", "doubling", "eight")}
    asyncio.run(_pinged_meanwhile(specs))


def test_a_session_that_does_not_answer_is_not_ready(served):
    served.find("doubling").session.close()
    status, said = ask(served, "/v2/health/ready")
    assert status == 503
    assert said["error"].startswith("[SGK144]")
    assert ask(served, "/v2/models/negation/ready")[0] == 200
    with pytest.raises(sk.SubgraphkitError):
        asyncio.run(served.ping())


def test_what_cannot_be_opened_leaves_everything_as_it_was(served, models, tmp_path):
    (tmp_path / "gone.onnx").write_bytes((models / "eight.onnx").read_bytes())
    gone = sk.SessionSpec.of(tmp_path / "gone.onnx", backend="numpy").to_json()
    (tmp_path / "gone.onnx").unlink()
    with pytest.raises(ModelNotFoundError, match="This was model 'gone'"):
        asyncio.run(served.exchange({"new": text(models, "eight"), "gone": gone}))
    assert np.array_equal(asyncio.run(served.find("doubling").run({"x": X}))[0], X + X)
    assert ask(served, "/v2/models/new")[0] == 404


def posted(models, body, model="doubling", **headers):
    path = f"/v2/models/{model}/infer"
    status, said, sent = asyncio.run(answer(models, "POST", path, headers, body))
    return status, said, json.loads(sent)


def asking(**parameters):
    x = {"name": "x", "datatype": "FP32", "shape": [2, 4], "data": X.tolist()}
    return json.dumps({"inputs": [x], "parameters": parameters}).encode()


def test_bodies_may_be_packed_and_are_no_larger_for_that(served):
    for pack, encoding in ((gzip.compress, "gzip"), (zlib.compress, "deflate")):
        found = posted(served, pack(asking()), **{"content-encoding": encoding})
        assert found[0] == 200
        assert found[2]["outputs"][0]["data"] == (2 * X).reshape(-1).tolist()
    for body, encoding, status in (
        (b"none", "gzip", 400),
        (gzip.compress(asking())[:-9], "gzip", 400),
        (gzip.compress(asking()) + b"x", "gzip", 400),
        (asking(), "br", 415),
        (gzip.compress(bytes(served.max_body_bytes + 1)), "gzip", 413),
    ):
        assert posted(served, body, **{"content-encoding": encoding})[0] == status


def test_json_has_a_limit_of_its_own(served):
    served.max_json_bytes = len(asking())
    assert posted(served, asking())[0] == 200
    status, _, said = posted(served, asking() + b" ")
    assert (status, "Send tensors as binary data" in said["error"]) == (413, True)


def test_what_a_request_says_of_its_time_holds_or_is_refused(served):
    assert posted(served, asking(timeout=0, priority=0))[0] == 200
    assert posted(served, asking(timeout=60_000_000))[0] == 200
    for wrong in ({"timeout": "1"}, {"timeout": -1}, {"timeout": True}, {"priority": 1}):
        assert posted(served, asking(**wrong))[0] == 400


def test_a_loop_that_never_ends_is_ended_and_others_are_answered(tmp_path, models):
    text_of_loop = """g (int64 n, float[1] x) => (float[1] y) { c = Constant<value = bool {1}>()
        y = Loop <body = b (int64 i, bool ci, float[1] s) => (bool co, float[1] t)
        { co = Identity(ci) t = Neg(s) }> (n, c, x) }"""
    onnx.save(parsed(text_of_loop), tmp_path / "loop.onnx")
    spec = sk.SessionSpec.of(tmp_path / "loop.onnx", "numpy", threads=4).to_json()
    served = Models()
    asyncio.run(served.exchange({"m": spec, "one": text(models, "doubling")}, None, 30))
    x = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}
    n = {"name": "n", "datatype": "INT64", "shape": [], "data": [2**60]}
    body = json.dumps({"inputs": [x, n], "parameters": {"timeout": 500_000}}).encode()

    async def ask_all():
        asked = [answer(served, "POST", "/v2/models/m/infer", {}, body) for _ in range(2)]
        others = [answer(served, "POST", "/v2/models/one/infer", {}, asking()) for _ in range(8)]
        return await asyncio.gather(*asked, *others)

    found = asyncio.run(ask_all())
    assert [status for status, *_ in found] == [504] * 2 + [200] * 8


def test_a_server_that_drains_answers_what_it_has_begun_and_refuses_the_rest(served):
    async def drain():
        path = "/v2/models/doubling/infer"
        begun = asyncio.create_task(answer(served, "POST", path, {}, asking()))
        await asyncio.sleep(0)
        draining = asyncio.create_task(served.drain())
        await asyncio.sleep(0)
        late = await answer(served, "POST", path, {}, asking())
        ready = await answer(served, "GET", "/v2/health/ready", {}, b"")
        live = await answer(served, "GET", "/v2/health/live", {}, b"")
        await draining
        assert begun.done()
        return await begun, late, ready, live

    begun, late, ready, live = asyncio.run(drain())
    assert [one[0] for one in (begun, late, ready, live)] == [200, 503, 503, 200]
    assert late[1]["Retry-After"] == ready[1]["Retry-After"] == "1"


def test_a_server_says_which_models_it_has_and_what_they_did(served):
    assert posted(served, asking())[0] == 200
    index = asyncio.run(answer(served, "POST", "/v2/repository/index", {}, b""))
    assert [(one["name"], one["state"]) for one in json.loads(index[2])] == [
        ("negation", "READY"), ("doubling", "READY"),
    ]  # fmt: skip
    (stats,) = ask(served, "/v2/models/doubling/versions/1/stats")[1]["model_stats"]
    assert (stats["inference_count"], stats["inference_stats"]["success"]["count"]) == (1, 1)
    said = ask(served, "/v2/models/doubling/config")[1]
    assert said["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": ["-1", "4"]}]


def test_models_of_one_folder_are_loaded_and_unloaded_by_name(served, models, tmp_path):
    def changed(verb, name, body=b"{}"):
        path = f"/v2/repository/models/{name}/{verb}"
        status, _, said = asyncio.run(answer(served, "POST", path, {}, body))
        return status, said.decode()

    assert changed("load", "eight")[0] == 400
    served.folder = tmp_path / "models"
    served.folder.mkdir()
    (served.folder / "eight.json").write_text(text(models, "eight"))
    (served.folder / "outside.onnx").symlink_to(models / "words.onnx")
    (served.folder / "broken.onnx").write_text("no model")
    doubling = served.find("doubling")
    assert changed("load", "eight") == (200, "null")
    assert ask(served, "/v2/models/eight/ready")[0] == 200
    index = asyncio.run(answer(served, "POST", "/v2/repository/index", {}, b""))
    states = [(one["name"], one["state"]) for one in json.loads(index[2])]
    assert states[2:] == [("eight", "READY"), ("broken", "UNAVAILABLE")]
    for name, status in (("outside", 404), ("..", 404), ("negation", 404), ("broken", 500)):
        assert changed("load", name)[0] == status
    for words in (b'{"parameters":{"config":"{}"}}', b'{"parameters":{"file:1/a":"', b"[]"):
        assert changed("load", "eight", words)[0] == 400
    assert changed("unload", "eight", b'{"parameters":{"unload_dependents":false}}')[0] == 200
    assert changed("unload", "eight")[0] == ask(served, "/v2/models/eight")[0] == 404
    assert served.find("doubling") is doubling


def test_metrics_are_in_the_format_of_prometheus(models):
    served = Models()
    assert asyncio.run(answer(served, "GET", "/metrics", {}, b""))[0] == 404
    served.metrics = Metrics()
    with extended(served.metrics):
        asyncio.run(served.exchange({"doubling": text(models, "doubling")}))
    for body in (asking(), asking(), b"{"):
        posted(served, body)
    status, _, said = asyncio.run(answer(served, "GET", "/metrics", {}, b""))
    families = text_string_to_metric_families(said.decode())
    samples = [one for two in families for one in two.samples]
    found = {(one.name, *sorted(one.labels.items())): one.value for one in samples}
    model = ("model", "doubling")
    assert status == 200
    assert found["subgraphkit_requests_total", model, ("status", "200")] == 2
    assert found["subgraphkit_requests_total", model, ("status", "400")] == 1
    assert found["subgraphkit_errors_total", ("code", "SGK343"), model] == 1
    assert found["subgraphkit_request_seconds_count", model] == 2
    assert found["subgraphkit_runs_total", model] == 2
    (region,) = [key for key in found if key[0] == "subgraphkit_region_seconds_total"]
    assert (region[1:3], found[region] > 0) == ((("backend", "numpy"), model), True)
    assert (
        found["subgraphkit_requests_open", model] == found["subgraphkit_runs_waiting", model] == 0
    )
    assert found["subgraphkit_model", model, ("version", served.find("doubling").version)] == 1
