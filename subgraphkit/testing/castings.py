"""Traps written anew with the operators, the element type and the shape that a backend takes.

A trap is a graph of cheap nodes on ``float[4]``. Where a backend takes none of them, or is made for
others, its own stand in their places.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from subgraphkit.comparing.offers import Offer
from subgraphkit.testing.subject import Subject

__all__ = ["Casting", "casting_of"]

_ROLES: Final = ("Relu", "Sigmoid", "Tanh")
_PLAIN: Final = frozenset({*_ROLES, "Add", "Mul", "Carry", "If", "Loop", "Identity", "Constant"})
"""The operators of traps that can be cast; in the types of their values they leave a choice."""
_OPERATOR: Final = re.compile(r"= (?:[\w.]+\.)?([A-Z]\w*)\s*[<(]")
_UNARY: Final = re.compile(rf"(\w+) = ({'|'.join(_ROLES)})\((\w+)\)")
_DECLARED: Final = re.compile(r"(\)\s*)(?:<([^<>{}]*)>\s*)?\{")
_TYPED: Final = re.compile(r"\b(?:float|double|float16|u?int\d+|bool|string)\[[^\]]*\]")
_NUMBERS: Final = re.compile(r"\] \{[\d.]")
"""Values of a constant, which are of one type and shape."""
_LOGICAL: Final = "bool"
_FOR_LOGICAL: Final = {"Add": "Or", "Mul": "And"}


@dataclass(frozen=True)
class Casting:
    """What stands for the nodes of a trap.

    Attributes:
        offers: Of one element type and shape, in the places of Relu, Sigmoid and Tanh.
    """

    offers: tuple[Offer, ...]

    @property
    def name(self) -> str:
        """What they are."""
        return ", ".join(dict.fromkeys(offer.name for offer in self.offers))

    @property
    def opset(self) -> int:
        """The operator set in which all of them are defined."""
        return max(offer.form.opset for offer in self.offers)

    def of(self, text: str, *, shares: bool = False) -> str:
        """Write a trap anew.

        Args:
            text: The trap.
            shares: Whether all nodes read the same weights.

        Returns:
            The graph in onnx's text form; empty if it is about one element type or operator, and
            means nothing with others.
        """
        types, operators = set(_TYPED.findall(text)), set(_OPERATOR.findall(text))
        open_ = "float[n,4]" in types
        plain = types <= {"float[n,4]" if open_ else "float[4]"} and operators <= _PLAIN
        if not plain or not _UNARY.search(text) or _NUMBERS.search(text):
            return ""
        first = self.offers[0].with_rows(None) if open_ else self.offers[0]
        if first.element_type == _LOGICAL:
            text = re.sub(r"\b(Add|Mul)\b", lambda found: _FOR_LOGICAL[found[1]], text)
        weights: dict[str, None] = {}

        def played(found: re.Match[str]) -> str:
            target, role, source = found.groups()
            offer = self.offers[_ROLES.index(role) % len(self.offers)]
            together = f"_of_{role}" if shares else ""
            declared, nodes = offer.between(source, target, f"_of_{target}", shared=together)
            weights.update(dict.fromkeys(declared))
            return nodes

        text = _TYPED.sub(first.type, _UNARY.sub(played, text))
        return _DECLARED.sub(lambda found: _with(weights, found), text, count=1)


def _with(weights: Iterable[str], found: re.Match[str]) -> str:
    """Declare weights beside those of the trap."""
    declared = ", ".join(filter(None, ((found[2] or "").strip(), *weights)))
    return f"{found[1]}<{declared}> {{" if declared else found[0]


def casting_of(subject: Subject) -> Casting | None:
    """Return how to cast a trap with what a backend takes, led by what it is made for.

    Raises:
        Stopped: It takes nothing, and failed when it was asked.
    """
    claims = sorted(subject.claims, key=lambda offer: (not offer.form.is_heavy, offer.times))
    if not claims:
        return None
    lead = claims[0]
    fitting = [one for one in claims if one.type == lead.type and one.times == lead.times]
    others = [one for one in fitting if one.operators != lead.operators]
    return Casting((lead, *others[:1], lead))
