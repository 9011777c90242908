"""Make the operator table of the backend from a study of TensorRT's documentation and parser.

    python make_operator_table.py STUDY.json ../subgraphkit_tensorrt/rules/operators.json

The study has, by operator, what the documentation of each release says and what was measured, with
sources and remarks. The table keeps what decides whether a node can be taken, in the form that
``rules/operators.py`` describes.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_WORDS: Final = {
    "FLOAT": "f32",
    "FLOAT16": "f16",
    "BFLOAT16": "bf16",
    "INT32": "i32",
    "INT64": "i64",
    "INT8": "i8",
    "UINT8": "u8",
    "BOOL": "bool",
    "FLOAT8E4M3FN": "f8",
    "INT4": "i4",
    "FLOAT4E2M1": "f4",
}
_PLACES: Final = {
    "input:0": "",
    "input:1": "input 1",
    "output:0": "output 0",
    "outputs": "outputs",
    "input:0 and attr:to": "",
    "input:0 and input:1": "inputs",
}
# Measured later than the study: the volume of a window is limited, to 100,000 along two axes.
_MEASURED: Final = {
    "AveragePool": [{"kind": "window_within_input"}],
    "MaxPool": [{"kind": "window_within_input"}],
}
# What only explains a rule, and what says the same as another rule of the operator.
_REMARKS: Final = frozenset({"source", "note", "name", "which"})
_TOLD_TWICE: Final = frozenset(
    {
        "branch_output_count_equal",  # ONNX asks for it as well, as for the next
        "opset_gate",
        "output_dtype_not_in",
        "input_const_shape_static",
        "nondeterministic",
        "input_not_subgraph_input",  # a column of its own: it is about edges
    }
)
_OLDEST_OPSET: Final = 9
_OLD_RELEASES: Final = ("8.5", "8.6", "10.0", "10.1")
# Their seeds are ignored, so that no two releases need agree.
_RANDOM: Final = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
# Plugins that TensorRT for RTX lacks, and operators that its parser takes and its builder
# has no kernel for, or for few sizes only.
_NOT_IN_RTX: Final = (
    "Attention",
    "CausalConvWithState",
    "DeformConv",
    "LinearAttention",
    "NonMaxSuppression",
    "NonZero",
    "RoiAlign",
)


def main(study: Path, table: Path) -> None:
    """Write the table."""
    found = json.loads(study.read_text())["ops"]
    listed = {name: entry for name, entry in found.items() if name not in _RANDOM}
    lines = [
        f'    "{name}": {json.dumps(_operator(entry, _MEASURED.get(name, [])))}'
        for name, entry in sorted(listed.items())
        if entry["supported"]
    ]
    missing = sorted(
        [name for name, entry in found.items() if not entry["supported"]] + list(_RANDOM)
    )
    text = (
        '{\n  "opsets": {"8.5": [9, 17], "10.0": [9, 20], "10.16": [9, 24]},\n'
        f'  "unsupported": {json.dumps(missing)},\n'
        f'  "absent": {{"tensorrt_rtx": {json.dumps(_NOT_IN_RTX)}}},\n'
        '  "operators": {\n' + ",\n".join(lines) + "\n  }\n}\n"
    )
    table.write_text(text)


def _operator(entry: Mapping[str, Any], measured: list[dict[str, Any]]) -> dict[str, Any]:
    more = set(entry.get("dtypes_importer_10_1", ())) - set(entry["dtypes"])
    opset = entry.get("min_opset") or _OLDEST_OPSET
    row: dict[str, Any] = {
        "dtypes": _dtypes(entry["dtypes"]),
        "of": _PLACES[entry["dtype_applies_to"]],
        "perhaps": _dtypes(sorted(more, key=list(_WORDS).index)),
        "since": "" if entry["since_trt"].startswith("<=") else entry["since_trt"],
        "older": _older(entry),
        "opset": opset if opset > _OLDEST_OPSET else 0,
    }
    inside = [
        rule["input"] for rule in entry["rules"] if rule["kind"] == "input_not_subgraph_input"
    ]
    if inside:
        row["inside"] = inside
    row["rules"] = [_rule(rule) for rule in entry["rules"] if rule["kind"] not in _TOLD_TWICE]
    row["rules"] += measured
    return {key: value for key, value in row.items() if value}


def _dtypes(names: list[str]) -> str:
    return " ".join(_WORDS[name] for name in names)


def _older(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return the types of older releases: a row holds for its release and for those before it."""
    differs = entry.get("differs_in") or {}
    rows: dict[str, str] = {}
    newer = _dtypes(entry["dtypes"])
    for release in reversed(_OLD_RELEASES):
        old = differs.get(release, {"dtypes": entry["dtypes"]})
        if not old or not old["dtypes"]:
            continue
        words = _dtypes(old["dtypes"])
        if words != newer:
            rows[release] = words
        newer = words
    return dict(sorted(rows.items(), key=lambda row: _OLD_RELEASES.index(row[0])))


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in rule.items() if key not in _REMARKS}
    if kept.get("only") == "rtx":
        kept["only"] = "tensorrt_rtx"
    if "name" in rule:
        kept["input_name" if "input" in rule else "output_name"] = rule["name"]
    for key in ("dtypes", "allowed"):
        if key in kept:
            kept[key] = _dtypes(kept[key])
    if kept["kind"] == "attr_in" and kept["attr"] in {"to", "dtype"}:
        kept["values"] = _dtypes(kept["values"])
        kept["kind"] = "attr_dtype_in"
    if kept["kind"] == "implies":
        then = dict(kept["then"])
        if "dtype_in" in then:
            then["dtype_in"] = _dtypes(then["dtype_in"])
        kept["then"] = then
    return kept


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
