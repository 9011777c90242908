"""The words of ``subgraphkit calibrate`` and ``subgraphkit convert``."""

import argparse
import math

from subgraphkit.cli.arguments.model import add_bind_words
from subgraphkit.cli.values import counting, tolerance

__all__ = ["add_calibrate", "add_convert"]


def add_calibrate(parser: argparse.ArgumentParser) -> None:
    """Add what ``subgraphkit calibrate`` takes."""
    add_bind_words(parser)
    _add_data(parser, required=True)
    parser.add_argument(
        "-o", "--output", metavar="FILE.json", required=True, help="where to store the ranges"
    )
    parser.add_argument(
        "--method",
        choices=("mse", "entropy", "percentile", "minmax"),
        default="mse",
        help="how thresholds are chosen (default: mse, the least squared error)",
    )
    parser.add_argument(
        "--percentile",
        metavar="P",
        type=float,
        default=99.99,
        help="percent of the elements that are not clipped, for that method (default: 99.99)",
    )


def add_convert(parser: argparse.ArgumentParser) -> None:
    """Add what ``subgraphkit convert`` takes."""
    add_bind_words(parser)
    parser.add_argument(
        "--precision",
        choices=("fp16", "bf16", "int8"),
        required=True,
        help="what nodes are to compute in",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE.onnx", required=True, help="where to store the model"
    )
    parser.add_argument(
        "--ranges",
        metavar="FILE",
        help="what 'subgraphkit calibrate' stored, or a calibration cache of TensorRT",
    )
    parser.add_argument(
        "--high-precision",
        choices=("fp32", "fp16", "bf16"),
        default="fp32",
        help="what is computed in beside int8 (default: fp32)",
    )
    for word, purpose in (
        ("--keep", "operator, node or node's output that stays, a regular expression"),
        ("--only", "the same, beside which all others stay"),
    ):
        parser.add_argument(word, metavar="PATTERN", action="append", default=[], help=purpose)
    _add_limits(parser)
    parser.add_argument("--report", action="store_true", help="compare the outputs of both models")
    parser.add_argument(
        "--values",
        action="store_true",
        help="compare inner values as well, and show in which nodes error is born; with --report",
    )
    _add_bounds(parser)
    _add_data(parser, required=False)


def _add_limits(parser: argparse.ArgumentParser) -> None:
    """Add by what nodes are left alone; those not given are the library's to choose."""
    for word, metavar, kind, purpose in (
        ("--data-max", "X", tolerance, "with fp16 and ranges, nodes stay that see values beyond"),
        ("--max-reduction", "N", counting(1), "nodes that sum more terms stay"),
        (
            "--min-input-snr",
            "DB",
            tolerance,
            "with int8, products stay whose input int8 holds worse; 0 for no limit",
        ),
    ):
        parser.add_argument(word, metavar=metavar, type=kind, help=purpose)


def _add_bounds(parser: argparse.ArgumentParser) -> None:
    for word, metavar, purpose in (
        ("--max-error", "X", "if an output is further off"),
        ("--min-snr", "DB", "if an output has a lower ratio of signal to noise"),
    ):
        parser.add_argument(
            word,
            metavar=metavar,
            type=tolerance,
            help=f"fail, and store nothing, {purpose}; implies --report",
        )
    parser.add_argument(
        "--search",
        metavar="SECONDS",
        nargs="?",
        type=tolerance,
        const=math.inf,
        help="find nodes to keep so that --max-error and --min-snr hold, for as long at most",
    )


def _add_data(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument(
        "--data",
        metavar="PLACE",
        nargs="+",
        required=required,
        default=[],
        help=".npz files with a batch each, or folders of them"
        + ("" if required else "; for the report (default: one random batch)"),
    )
    parser.add_argument(
        "--backend",
        metavar="LIST",
        default="numpy",
        help="backends that run the model (default: numpy)",
    )
