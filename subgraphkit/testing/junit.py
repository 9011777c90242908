"""A report as JUnit XML, which the servers that run tests know how to show."""

import platform
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final
from xml.etree import ElementTree as ET

from subgraphkit.testing.cases import Finding, Outcome
from subgraphkit.testing.report import LevelSummary, Report

_HEAD: Final = '<?xml version="1.0" encoding="UTF-8"?>'
_ERRORS: Final = frozenset({Outcome.CRASH, Outcome.HANG})
_DONE: Final = frozenset({Outcome.RIGHT, Outcome.PASSED, Outcome.REFUSED})
_UNWRITABLE: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML document may hold, not even as a number."""


def junit_xml(report: Report) -> str:
    """Write a report, a suite for each level and a test for each case.

    What crashed or hung is an error, what is wrong otherwise a failure. All that is neither right
    nor passed nor refused as it should be is skipped, with the reason.
    """
    root = ET.Element("testsuites")
    written = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    for number, level in enumerate(report.levels):
        of_level = [one for one in report.findings if one.level == level.level]
        suite = ET.SubElement(root, "testsuite", _counted(report, level, of_level))
        suite.attrib |= {"id": str(number), "timestamp": written}
        properties = ET.SubElement(suite, "properties")
        facts = {"seed": str(report.seed), "sample": report.sample, "cut_short": report.cut_short}
        for name, value in facts.items():
            ET.SubElement(properties, "property", name=name, value=_plain(value))
        for finding in of_level:
            _add(suite, finding, suite.attrib["name"])
        for stream in ("system-out", "system-err"):
            ET.SubElement(suite, stream)
    ET.indent(root)
    return f"{_HEAD}\n{ET.tostring(root, encoding='unicode')}\n"


def _counted(report: Report, level: LevelSummary, findings: Iterable[Finding]) -> dict[str, str]:
    kinds = [_kind(one.outcome) for one in findings]
    return {
        "name": f"L{level.level} {level.name}",
        "package": f"subgraphkit.{_plain(report.backend)}",
        "hostname": platform.node() or "localhost",
        "tests": str(len(kinds)),
        "failures": str(kinds.count("failure")),
        "errors": str(kinds.count("error")),
        "skipped": str(kinds.count("skipped")),
        "time": f"{level.seconds:.3f}",
    }


def _kind(outcome: Outcome) -> str:
    if outcome in _DONE:
        return ""
    if outcome in _ERRORS:
        return "error"
    return "failure" if outcome.is_wrong else "skipped"


def _add(suite: ET.Element, finding: Finding, classname: str) -> None:
    facts = {"name": _plain(finding.case), "classname": classname, "time": f"{finding.seconds:.3f}"}
    case = ET.SubElement(suite, "testcase", facts)
    kind = _kind(finding.outcome)
    if kind:
        text = _plain(finding.detail) or finding.outcome.value
        ET.SubElement(case, kind, type=finding.outcome.value, message=text)


def _plain(text: str) -> str:
    return _UNWRITABLE.sub("?", text)
