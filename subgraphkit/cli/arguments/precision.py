"""The words of ``subgraphkit calibrate`` and ``subgraphkit convert``."""

import argparse

from subgraphkit.cli.arguments.model import add_bind_words
from subgraphkit.cli.values import tolerance

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
        choices=("minmax", "percentile", "entropy"),
        default="entropy",
        help="how thresholds are chosen (default: entropy)",
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
        ("--keep", "operator or node that stays as it is, a regular expression"),
        ("--only", "operator or node beside which all others stay, a regular expression"),
    ):
        parser.add_argument(word, metavar="PATTERN", action="append", default=[], help=purpose)
    parser.add_argument("--report", action="store_true", help="compare the outputs of both models")
    parser.add_argument(
        "--values", action="store_true", help="compare inner values as well; with --report"
    )
    parser.add_argument(
        "--max-error",
        metavar="X",
        type=tolerance,
        help="fail, and store nothing, if an output is further off; implies --report",
    )
    _add_data(parser, required=False)


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
