"""Options by which checks that are sampled in every run are made in full."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption(
        "--cuts-per-model",
        type=int,
        default=4,
        help="random partitionings of each real model that are compared with the whole (112 is "
        "the full check: 1,008 in all)",
    )
    parser.addoption(
        "--mixed-models",
        type=int,
        default=2,
        help="real models that are run on several libraries in one session (9 is all)",
    )
    parser.addoption(
        "--claimed-cases",
        type=int,
        default=120,
        help="official node cases that TensorRT's parser and builder are asked about (2000 is all)",
    )
