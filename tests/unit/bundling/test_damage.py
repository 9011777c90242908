"""What is not exactly what was exported is refused by code before a backend sees a byte of it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import subgraphkit as sk
from subgraphkit.bundling import BundleFiles
from subgraphkit.bundling.reading import MARK
from subgraphkit.errors import BundleError
from subgraphkit.partitioning import Constraints
from tests.models import LINEAR, parsed
from tests.storing import storing
from tests.unit.bundling.conftest import X, edited


def _refused(bundle, backend, *codes):
    with pytest.raises(BundleError) as caught:
        sk.InferenceSession(bundle, backend=[backend])
    assert caught.value.code in codes, caught.value
    assert backend.restorations == 0
    return caught.value


def _files(bundle):
    found = sorted(bundle.iterdir())
    assert [path.suffix for path in found] == [".json", ".onnx", ".engine", ".engine", ".bin"]
    return found


@pytest.mark.parametrize("at", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_a_byte_that_differs_is_noticed_in_every_file(bundle, backend, at):
    for path in _files(bundle):
        sound = path.read_bytes()
        damaged = bytearray(sound)
        damaged[min(int(at * len(sound)), len(sound) - 2)] ^= 1
        path.write_bytes(damaged)
        _refused(bundle, backend, "SGK181", "SGK182")
        path.write_bytes(sound)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_a_file_that_is_cut_short_grown_or_gone_is_noticed(bundle, backend, share):
    for path in _files(bundle):
        sound = path.read_bytes()
        path.write_bytes(sound[: int(share * len(sound))])
        _refused(bundle, backend, "SGK181", "SGK182")
        path.write_bytes(sound + b"x")
        _refused(bundle, backend, "SGK181", "SGK182")
        path.unlink()
        _refused(bundle, backend, "SGK181", "SGK182")
        path.mkdir()
        _refused(bundle, backend, "SGK181", "SGK182")
        path.rmdir()
        path.write_bytes(sound)


def test_a_model_is_used_as_it_was_checked_though_the_bundle_is_replaced_meanwhile(monkeypatch):
    x = np.ones((2, 3), np.float32)
    with sk.InferenceSession(parsed(LINEAR), shapes={"N": 2}) as session:
        want = session.run(None, {"x": x})[0]
        session.export("bundle")
        session.update_weights({"bias": np.array([100, 200], np.float32)})
        session.export("other")
    real = BundleFiles._open

    def opened_once(self, name):
        file = real(self, name)
        if name == "model.onnx":
            Path("bundle").rename("former")
            Path("other").rename("bundle")
        return file

    monkeypatch.setattr(BundleFiles, "_open", opened_once)
    with sk.InferenceSession("bundle") as opened:
        np.testing.assert_array_equal(opened.run(None, {"x": x})[0], want)


def test_files_that_are_links_are_not_read(bundle, backend):
    for path in list(bundle.iterdir()):
        shutil.move(path, "aside")
        path.symlink_to(Path("aside").absolute())
        assert "symbolic link" in _refused(bundle, backend, "SGK182").message
        path.unlink()
        shutil.move("aside", path)


def test_a_pipe_in_place_of_a_file_does_not_make_it_wait(bundle, backend):
    (bundle / "storing_0.engine").unlink()
    os.mkfifo(bundle / "storing_0.engine")
    assert "regular file" in _refused(bundle, backend, "SGK182").message


EDITS: dict[str, Callable[[Any], None]] = {
    "another format": lambda m: m.update(subgraphkit_bundle=2),
    "no mark": lambda m: m.pop("subgraphkit_bundle"),
    "a path that leads out": lambda m: m["model"].update(name="../model.onnx"),
    "an absolute path": lambda m: m["model"].update(name="/etc/passwd"),
    "a hidden file": lambda m: m["model"].update(name=".model"),
    "a file in a folder": lambda m: m["subgraphs"][0]["engine"].update(name="a/b.engine"),
    "one file for two": lambda m: m["subgraphs"][0].update(engine=m["subgraphs"][2]["engine"]),
    "a size that is text": lambda m: m["model"].update(size="12"),
    "a size that is negative": lambda m: m["model"].update(size=-1),
    "a digest of another kind": lambda m: m["model"].update(sha256="0"),
    "a member that is unknown": lambda m: m.update(more=1),
    "a member that is missing": lambda m: m.pop("symbols"),
    "nodes that do not exist": lambda m: m["subgraphs"][0].update(nodes=[99]),
    "no nodes": lambda m: m["subgraphs"][0].update(nodes=[]),
    "a node twice": lambda m: m["subgraphs"][0].update(nodes=[0, 0]),
    "a node left out": lambda m: m["subgraphs"].pop(),
    "nodes that changed places": lambda m: _swap(m, "nodes"),
    "a node that is no number": lambda m: m["subgraphs"][0].update(nodes=["0"]),
    "inputs of another": lambda m: _swap(m, "inputs"),
    "outputs of another": lambda m: _swap(m, "outputs"),
    "constants of another": lambda m: _swap(m, "constants"),
    "another name": lambda m: m["subgraphs"][0].update(id="storing_9"),
    "another order": lambda m: m["subgraphs"].reverse(),
    "another structure": lambda m: m["subgraphs"][0].update(structure="0" * 64),
    "another property": lambda m: m["subgraphs"][0].update(property="nobody's"),
    "other symbols": lambda m: (m["symbols"].update(N=3), m["shapes"].update(x=[3, 64])),
    "a symbol that does not exist": lambda m: m["symbols"].update(M=3),
    "shapes that contradict": lambda m: m["shapes"].update(x=[2, 65]),
    "another fingerprint": lambda m: m["backends"][0]["origin"].update(fingerprint="storing;gpu"),
    "another system": lambda m: m["backends"][0]["origin"].update(system="plan9"),
    "another version": lambda m: m["backends"][0]["origin"].update(implementation="storing 9"),
    "no origin": lambda m: m["backends"][0].update(origin=None),
    "two backends of a name": lambda m: m["backends"].append(m["backends"][0]),
    "a backend that does not exist": lambda m: m["backends"][0].update(name="nobody"),
    "no backends": lambda m: m.update(backends=[]),
    "an option that is for whoever opens it": lambda m: m["backends"][0]["options"].update(
        threads=2
    ),
    "a file of more bytes than there is memory": lambda m: m["subgraphs"][0]["engine"].update(
        size=2**62
    ),
    "a file of more bytes than there are": lambda m: m["weights"].update(size=2**63 - 1),
    "half a character as a dimension": lambda m: m["shapes"].update(x=["\ud800", 64]),
    "half a character as a name": lambda m: m.update(name="\ud800"),
    "half a character as an input": lambda m: m["shapes"].update({"\ud800": [1]}),
    "a format that is no whole number": lambda m: m.update({MARK: 1.0}),
    "everything a list": lambda m: m.update({key: [] for key in list(m)[1:]}),
    "a number where objects belong": lambda m: m.update(subgraphs=7),
    "null where objects belong": lambda m: m.update(subgraphs=[None]),
}


def _swap(members, name):
    one, other = members["subgraphs"][0], members["subgraphs"][2]
    one[name], other[name] = other[name], one[name]


@pytest.mark.parametrize("edit", EDITS)
def test_a_manifest_that_was_edited_is_refused_even_if_its_digest_was(bundle, backend, edit):
    edited(bundle, EDITS[edit])
    with pytest.raises(sk.SubgraphkitError) as caught:
        sk.InferenceSession(bundle, backend=[backend])
    assert caught.value.code != "SGK900"
    assert backend.restorations == 0


def test_a_folder_that_is_no_bundle_is_refused(tmp_path, backend):
    assert "there is no manifest.json in it" in _refused(tmp_path, backend, "SGK181").message


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"a": 1}'])
def test_what_is_no_manifest_is_refused(bundle, backend, text):
    (bundle / "manifest.json").write_bytes(text)
    _refused(bundle, backend, "SGK181", "SGK182")


# -- what it was made for ------------------------------------------------------------------------


def test_another_device_is_refused_with_what_is_here_and_what_it_was_made_with(bundle):
    error = _refused(bundle, storing(device="gpu"), "SGK186")
    assert "made with storing;cpu, here is storing;gpu" in error.hint


def test_a_backend_may_accept_what_it_knows_to_fit(bundle, expected):
    def accepts(self, made, here):
        return bool(made.fingerprint == "storing;cpu" and here.fingerprint == "storing;gpu")

    other = storing(device="gpu", accepts=accepts)
    with sk.InferenceSession(bundle, backend=[other]) as opened:
        np.testing.assert_allclose(opened.run(None, {"x": X})[0], expected, rtol=1e-5)


def test_a_backend_that_cannot_say_or_restore_is_named(bundle):
    def broken(self, *_):
        raise RuntimeError("no driver")

    for name, doing in (("accepts", "judge"), ("fingerprint", "judge"), ("deserialize", "restore")):
        with pytest.raises(sk.errors.CompileError, match=f"SGK187.*{doing}.*no driver"):
            sk.InferenceSession(bundle, backend=[storing(**{name: broken})])


@pytest.mark.parametrize(("call", "text"), [
    ({"shapes": {"N": 3}}, "shapes are given"),
    ({"pin": "Relu=numpy"}, "nodes are pinned"),
    ({"constraints": Constraints(pins={"Relu": "numpy"})}, "nodes are pinned"),
    ({"backend": "onnxruntime"}, "onnxruntime"),
    ({"options": {"storing": {"level": 2}}}, "'level'.* is 2 .*made with 1"),
])  # fmt: skip
def test_what_was_compiled_cannot_be_asked_to_be_something_else(bundle, backend, call, text):
    with pytest.raises(BundleError, match=f"SGK185.*{text}"):
        sk.InferenceSession(bundle, **{"backend": [backend], **call})
    assert backend.restorations == 0


def test_options_that_shape_engines_travel_and_others_do_not(backend):
    with sk.InferenceSession(
        parsed(LINEAR), backend=[backend], options={"storing": {"level": 3, "threads": 8}}
    ) as session:
        session.export("bundle")
    with sk.InferenceSession(
        "bundle", backend=[backend], options={"storing": {"threads": 2}}
    ) as opened:
        options = opened.partitioning.passes.claims[0].backend.option_values
        assert (options.level, options.threads) == (3, 2)
    with sk.InferenceSession("bundle", backend=[backend]) as opened:
        options = opened.partitioning.passes.claims[0].backend.option_values
        assert (options.level, options.threads) == (3, 1)


# -- whom it trusts ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "manifest.json", "model.onnx", "storing_0.engine"])
def test_what_others_can_write_takes_a_word_of_trust(bundle, backend, name, expected):
    path = bundle / name
    path.chmod(path.stat().st_mode | 0o020)
    hint = _refused(bundle, backend, "SGK183").hint
    assert f"chmod -R go-w {bundle.resolve()}\n" in hint
    with sk.InferenceSession(bundle, backend=[backend], trust=True) as opened:
        np.testing.assert_allclose(opened.run(None, {"x": X})[0], expected, rtol=1e-5)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_belongs_to_somebody_else_takes_a_word_of_trust(bundle, backend):
    os.chown(bundle / "storing_0.engine", 12345, -1)
    assert "belongs to user 12345" in _refused(bundle, backend, "SGK183").message
    sk.InferenceSession(bundle, backend=[backend], trust=True).close()
