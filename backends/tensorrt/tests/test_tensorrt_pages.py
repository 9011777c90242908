"""The guide and the page on migrating keep up with the options."""

import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from subgraphkit.configuration.settings import SETTINGS
from subgraphkit_tensorrt import TensorRTBackend
from subgraphkit_tensorrt.library.flavours import State

TABLE = {option.name: option for option in TensorRTBackend.options}
PACKAGE = Path(__file__).parents[1]
DOCS = PACKAGE.parents[1] / "docs"
README = (PACKAGE / "README.md").read_text(encoding="utf-8")
GUIDE = (DOCS / "tensorrt.md").read_text(encoding="utf-8")
MIGRATING = (DOCS / "migrating-to-tensorrt.md").read_text(encoding="utf-8")
PEERS = {
    "onnxruntime": "ONNX Runtime's TensorRT provider",
    "tf_trt": "TF-TRT",
    "torch_tensorrt": "Torch-TensorRT, formerly TRTorch",
}
MXNET = "MXNet-TensorRT"
ROW = re.compile(r"^\| (`.*`) \| `(.*)` \|$", re.MULTILINE)
SETTING = re.compile(r"^\| (`.*`) \| setting `(.*)` \|$", re.MULTILINE)


def _section(title):
    sections = re.split(r"^## (.*)\n", MIGRATING, flags=re.MULTILINE)[1:]
    return dict(zip(sections[::2], sections[1::2], strict=True))[title]


def _without_equivalent(section):
    (text,) = re.findall(r"\*\*No equivalent:\*\*(.*?)\n\n", section, re.DOTALL)
    return set(re.findall(r"`(trt_\w+)`", text))


@pytest.mark.parametrize("peer", PEERS)
def test_the_table_of_a_peer_is_that_of_the_options_and_settings(peer):
    listed = {ours: theirs.replace("`", "") for theirs, ours in ROW.findall(_section(PEERS[peer]))}
    assert listed == {
        name: option.elsewhere[peer] for name, option in TABLE.items() if peer in option.elsewhere
    }
    for ours, theirs in listed.items():
        for name in theirs.split(", "):
            assert f" is {ours}=" in TensorRTBackend.foreign_option(name, "x")
    # what a peer sets for its library, and we for all
    rows = SETTING.findall(_section(PEERS[peer]))
    assert rows
    assert {ours for _, ours in rows} <= set(SETTINGS)
    for theirs, ours in rows:
        for name in theirs.replace("`", "").split(", "):
            assert f"{name} is the setting {ours}" in TensorRTBackend.foreign_option(name, "1")


def test_the_table_of_mxnet_names_options_that_exist():
    ours = [word for _, word in ROW.findall(_section(MXNET))]
    assert ours[0] == "SUBGRAPH_BACKEND=tensorrt"
    assert set(ours[1:]) <= set(TABLE)


def test_options_of_onnxruntime_without_equivalent_are_answered_so():
    for name in _without_equivalent(_section(PEERS["onnxruntime"])):
        answer = TensorRTBackend.foreign_option(name, "1")
        assert answer.startswith(f"No option here does what {name} of ONNX Runtime does")


def test_options_the_guide_sets_exist():
    set_ = set(re.findall(r"`(?:tensorrt:)?([a-z_]+)=", GUIDE))
    set_ |= set(re.findall(r"tensorrt\.([a-z_]+)=", GUIDE + MIGRATING))
    assert len(set_) > 15
    assert set_ <= {*TABLE, *SETTINGS, "shapes"}, "shapes is an argument of bind"


def test_the_guide_and_the_readme_explain_every_state():
    for text in (GUIDE, README):
        explained = re.findall(r"^\| ((?:absent \w+)|build only|ready) \|", text, re.MULTILINE)
        assert sorted(explained) == sorted(get_args(State))


def test_the_guide_and_the_readme_list_every_extra():
    extras = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    for text in (GUIDE, README):
        listed = re.findall(r"^\| `(\w+)` \| TensorRT", text, re.MULTILINE)
        assert sorted(listed) == sorted(extras["optional-dependencies"])
