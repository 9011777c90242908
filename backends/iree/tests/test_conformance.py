"""What the conformance kit of subgraphkit finds."""

from subgraphkit.testing import check_backend


def test_levels_0_to_3_of_the_conformance_kit_are_passed() -> None:
    findings = list(check_backend("iree", level=3))
    assert [(one.case, one.detail) for one in findings if one.is_wrong] == []
    assert any(one.taken for one in findings), "a backend that takes nothing passes nothing"
