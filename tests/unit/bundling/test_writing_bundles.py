"""A bundle is there whole, or what was there before is."""

import errno
import os
import signal
import stat
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

import subgraphkit as sk
from subgraphkit.bundling import check_target, writing
from subgraphkit.errors import BundleError, CompileError
from subgraphkit.storing.files import claim_path
from tests.ready import python_command
from tests.storing import failing_once, storing
from tests.unit.bundling.conftest import X, wide


def _export(place="bundle", **how):
    with sk.InferenceSession(wide(), backend="numpy", shapes={"N": 2}) as session:
        session.export(place, **how)


def _computes(place="bundle"):
    with sk.InferenceSession(place) as opened:
        return opened.run(None, {"x": X})[0].shape == (2, 64)


def test_folders_above_are_made_and_an_empty_one_is_taken():
    _export("a/b/bundle")
    Path("empty").mkdir()
    _export(Path("empty"))
    assert _computes("a/b/bundle")
    assert _computes("empty")


def test_a_bundle_is_replaced_only_if_asked_and_leaves_nothing_behind():
    _export()
    with pytest.raises(BundleError, match=r"SGK180.*there is a bundle already"):
        _export()
    before = sorted(Path("bundle").iterdir())
    _export(overwrite=True)
    assert sorted(Path("bundle").iterdir()) == before  # equal weights have equal names
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []
    assert _computes()


def test_anything_but_a_bundle_is_never_replaced():
    Path("bundle").mkdir()
    Path("bundle/thesis.tex").write_text("years")
    Path("file").write_text("a file")
    Path("bundle/manifest.json").write_text("{}")
    for place in ("bundle", "file"):
        with pytest.raises(BundleError, match="SGK180"):
            _export(place, overwrite=True)
    assert Path("bundle/thesis.tex").read_text() == "years"
    assert Path("file").read_text() == "a file"


@pytest.mark.parametrize("stranger", ["notes.txt", "tokenizer.json", ".git", "x.engine/y"])
def test_a_bundle_with_something_else_beside_it_is_not_replaced(stranger):
    _export()
    (Path("bundle") / stranger).parent.mkdir(exist_ok=True)
    (Path("bundle") / stranger).write_text("years")
    with pytest.raises(BundleError, match=r"SGK180.*something else in it"):
        _export(overwrite=True)
    assert (Path("bundle") / stranger).read_text() == "years"


def test_links_are_not_written_through_and_not_replaced():
    _export()
    Path("empty").mkdir()
    for place in ("bundle", "empty", "nowhere"):
        Path("link").symlink_to(place)
        with pytest.raises(BundleError, match=r"SGK180.*symbolic link"):
            _export("link", overwrite=True)
        Path("link").unlink()
    assert not any(Path("empty").iterdir())
    assert _computes()


def test_the_folder_one_is_in_is_not_taken_away(monkeypatch):
    Path("here").mkdir()
    monkeypatch.chdir("here")
    for place in ("", ".", Path.cwd()):
        with pytest.raises(BundleError, match=r"SGK180.*folder you are in"):
            _export(place)
    _export("bundle")
    assert _computes("bundle")


@pytest.mark.parametrize("place", ["file/bundle", "file/a/b", "a\0b", "x" * 300])
def test_a_place_that_can_be_no_folder_is_refused_before_anything_is_written(place):
    Path("file").write_text("a file")
    with pytest.raises(BundleError, match=r"(?s)SGK180.*Name another folder"):
        check_target(Path(place))


def test_what_another_process_put_there_meanwhile_is_not_replaced(monkeypatch):
    real = writing.write_bundled_model

    def late(*arguments):
        monkeypatch.setattr(writing, "write_bundled_model", real)
        _export()
        return real(*arguments)

    monkeypatch.setattr(writing, "write_bundled_model", late)
    with pytest.raises(BundleError, match=r"SGK180.*there is a bundle already"):
        _export()
    assert _computes()
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []


def test_nobody_else_may_write_to_what_was_written():
    before = os.umask(0)
    try:
        _export()
        _export("shared", shared=True)
    finally:
        os.umask(before)
    for name, file_mode, folder_mode in (("bundle", 0o600, 0o700), ("shared", 0o644, 0o755)):
        assert stat.S_IMODE(Path(name).stat().st_mode) == folder_mode
        assert {stat.S_IMODE(one.stat().st_mode) for one in Path(name).iterdir()} == {file_mode}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("call", range(5))
def test_a_disk_that_fails_leaves_nothing_or_what_was_there(monkeypatch, code, call):
    _export()
    kept = {path.name: path.read_bytes() for path in Path("bundle").iterdir()}
    real = os.fsync
    for place in ("bundle", "fresh"):
        monkeypatch.setattr(os, "fsync", failing_once(real, code, call))
        if call < 3:  # weights, model and manifest; the flushes of folders may fail
            with pytest.raises(BundleError, match="SGK180"):
                _export(place, overwrite=True)
            assert not Path("fresh").exists()
        else:
            _export(place, overwrite=True)
    assert {path.name: path.read_bytes() for path in Path("bundle").iterdir()} == kept
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []


KILLED = """
import os, signal, sys
import subgraphkit as sk
def export(left):
    def counted(event, arguments):
        nonlocal left
        if event in ("open", "os.rename", "os.mkdir", "os.rmdir") and "bundle" in str(arguments):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
    session = sk.InferenceSession("wide.onnx", backend="numpy", shapes={"N": 2})
    sys.addaudithook(counted)
    session.export("bundle", overwrite=True)
    os._exit(0)
sk.InferenceSession("wide.onnx", backend="numpy").close()  # imports once for all steps
for line in sys.stdin:
    if not os.fork():
        export(int(line))
    print(os.wait()[1], flush=True)
"""


def test_a_kill_at_any_step_leaves_all_of_a_bundle_or_none():
    onnx.save(wide(), "wide.onnx")
    ended, whole = 1, 0
    with subprocess.Popen(
        python_command("-c", KILLED), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for step in range(40):
            if not Path("bundle").exists():
                _export()
            print(step, file=child.stdin, flush=True)
            ended = int(child.stdout.readline())
            assert ended in {0, signal.SIGKILL}
            if Path("bundle").exists():
                assert _computes()
                whole += 1
            if ended == 0:
                break
    assert ended == 0
    assert whole > 1
    # what was left over, twenty times, is removed by who comes after
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []


def test_what_somebody_else_is_writing_or_has_written_is_left_alone():
    live, dead, foreign = (Path(f".bundle.{digit * 16}.part") for digit in "123")
    for folder in (live, dead, foreign, Path(f".other.{'1' * 16}.part")):
        folder.mkdir()
        (folder / "model.onnx").write_bytes(b"")
    (foreign / "diary.txt").write_text("mine")
    with claim_path(live) as is_mine:
        assert is_mine
        _export()
    assert {path.name for path in Path().iterdir() if path.name.startswith(".")} == {
        live.name,
        foreign.name,
        f".other.{'1' * 16}.part",
    }
    _export(overwrite=True)
    assert not live.exists()


def test_who_still_reads_a_bundle_that_was_replaced_finds_no_other_weights():
    _export()
    former = sk.load("bundle/model.onnx").graph.constants["w1"]
    with sk.InferenceSession(wide(), shapes={"N": 2}) as session:
        session.update_weights({"w1": np.zeros((64, 64), np.float32)})
        session.export("bundle", overwrite=True)
    with pytest.raises(sk.SubgraphkitError, match=r"SGK211.*missing"):
        former.array()


def test_a_subgraph_without_an_engine_yet_is_told_and_compiled_when_it_is_opened(
    caplog, monkeypatch, backend
):
    monkeypatch.setattr("tests.storing.ProgramOperator.serialize", lambda self: None)
    with sk.InferenceSession(wide(), backend=[backend], shapes={"N": 2}) as session:
        session.export("bundle")
    assert "storing_0 has no engine yet" in caplog.text
    backend.compilations = 0
    with sk.InferenceSession("bundle", backend=[backend]) as opened:
        assert opened.run(None, {"x": X})[0].shape == (2, 64)
    assert (backend.compilations, backend.restorations) == (2, 0)


def test_an_engine_that_cannot_be_stored_is_an_error(monkeypatch):
    for made, text in ((7, "returned a int"), (None, "out of memory")):

        def serialize(self, made=made):
            if made is None:
                raise RuntimeError("out of memory")
            return made

        with sk.InferenceSession(
            wide(), backend=[storing()], shapes={"N": 2}, cache=False
        ) as session:
            monkeypatch.setattr("tests.storing.ProgramOperator.serialize", serialize)
            with pytest.raises(CompileError, match=f"SGK187.*{text}"):
                session.export("bundle")
        assert not Path("bundle").exists()
