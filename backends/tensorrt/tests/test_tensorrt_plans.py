"""Headers of plans: every wheel finds what it built, and no other's."""

import pytest

from subgraphkit_tensorrt.building.plan import plan_problem
from subgraphkit_tensorrt.library.capabilities import release_of

WHEELS = """
10.0.1 10.1.0 10.2.0 10.2.0.post1 10.3.0 10.4.0 10.5.0 10.6.0 10.6.0.post1 10.6.0.post2 10.7.0
10.7.0.post1 10.8.0.43 10.9.0.34 10.10.0.31 10.11.0.33 10.12.0.36 10.13.0.35 10.13.2.6 10.13.3.9
10.13.3.9.post1 10.14.1.48 10.14.1.48.post1 10.15.1.29 10.16.0.72 10.16.1.11 11.0.0.114 11.1.0.106
11.2.1.2 11.3.0.99 11.4.0.106
"""
"""All of tensorrt-cu12-bindings that its registry has, from the oldest supported on."""
WHEELS_OF_RTX = ["1.4.0.76", "1.5.0.114", "1.6.1.120", "1.7.1.116"]
BUILD_NUMBER = 23


def _header(version: str, magic: bytes) -> bytes:
    """Return a plan of a release as far as its header, with all four numbers, as builders write."""
    numbers = (*release_of(version), BUILD_NUMBER)[:4]
    return magic + bytes(12) + (28).to_bytes(4, "little") + bytes(4) + bytes(numbers)


@pytest.mark.parametrize("version", [*WHEELS.split(), "10.0.0b6", "10.7.0+cu12", "10.7.0rc1"])
def test_a_plan_is_found_again_by_every_wheel_that_built_it(version: str) -> None:
    plan = _header(version, b"ftrt")
    assert plan_problem(plan, "tensorrt", version) == ""
    others = [one for one in WHEELS.split() if release_of(one)[:3] != release_of(version)[:3]]
    assert all("was built by" in plan_problem(plan, "tensorrt", other) for other in others)


def test_versions_are_their_numbers_and_nothing_after_them() -> None:
    assert release_of("10.7.0.post1") == (10, 7, 0)
    assert release_of("10.14.1.48.post1") == (10, 14, 1, 48)
    assert release_of(" 11.0.0rc2+cu13") == (11, 0, 0)
    assert release_of("unknown") == ()
    assert [len(release_of(one)) for one in WHEELS_OF_RTX] == [4] * 4
    plans = [_header(one, b"vtrt") for one in WHEELS_OF_RTX]
    fits = [plan_problem(plan, "tensorrt_rtx", "1.6.1.120") == "" for plan in plans]
    assert fits == [False, False, True, False]
