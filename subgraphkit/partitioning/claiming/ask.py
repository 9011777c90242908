"""Questions to selectors and properties, and their answers held to the contracts."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress
from typing import Any

import numpy as np

from subgraphkit.backend.property import Side, SubgraphProperty
from subgraphkit.backend.refusal import Refusal
from subgraphkit.backend.selector import OpSelector, SubgraphSelector
from subgraphkit.boundary import pass_on
from subgraphkit.errors import (
    BackendError,
    ConfigError,
    InternalError,
    ModelError,
    OptionError,
    SubgraphkitError,
)
from subgraphkit.ir import BoundGraph, Node
from subgraphkit.lazy import cached_property
from subgraphkit.partitioning.algorithms.levels import as_ints
from subgraphkit.partitioning.claims import AT_FAULT, Claim, whole_number

_ABOUT_REGIONS = frozenset({"accept"})


class RefusalColumn:
    """For each node, why one property did not take it.

    A million refused nodes usually share a handful of reasons, so each reason is stored once.
    """

    __slots__ = ("_distinct", "_reasons")

    def __init__(self, node_count: int) -> None:
        self._reasons: list[Refusal | None] = [None] * node_count
        self._distinct: dict[Refusal, Refusal] = {}

    def refuse(self, node: int, refusal: Refusal) -> None:
        """Keep the reason for a node, in place of an earlier one."""
        self._reasons[node] = self._distinct.setdefault(refusal, refusal)

    def clear(self, nodes: Iterable[int]) -> None:
        """Forget the reasons for nodes, because they were taken after all."""
        for node in nodes:
            self._reasons[node] = None

    def of(self, node: int) -> Refusal | None:
        """Return the reason for a node, or None if the property did not refuse it."""
        return self._reasons[node]

    def items(self) -> Iterator[tuple[int, Refusal]]:
        """Go through all refused nodes, ascending."""
        return ((node, one) for node, one in enumerate(self._reasons) if one is not None)

    def copy(self) -> "RefusalColumn":
        """Return an independent copy."""
        twin = RefusalColumn(0)
        twin._reasons, twin._distinct = self._reasons[:], dict(self._distinct)
        return twin


class CheckedProperty:
    """A property whose answers are checked against the contract, and that is blamed for its errors.

    It is asked about a value at the edge of a region once per node and side.
    """

    def __init__(self, claim: Claim, graph: BoundGraph) -> None:
        self.claim = claim
        self.graph = graph
        self._at_edges: dict[tuple[str, int, str], Refusal | None] = {}

    @cached_property
    def watches_boundary(self) -> bool:
        """Whether the property answers ``accept_boundary`` itself."""
        return self.overrides("accept_boundary")

    def overrides(self, name: str) -> bool:
        """Say whether the property answers a question itself, in its class or on the instance."""
        property_ = self.claim.property
        own = getattr(type(property_), name) is not getattr(SubgraphProperty, name)
        return own or name in vars(property_)

    def new_selector(self) -> SubgraphSelector:
        """Make a selector; SelectorContractError (SGK122) if that fails."""
        with self.blame("SGK122", "create_selector"):
            selector = self.claim.property.create_selector(self.graph)
        if not isinstance(selector, SubgraphSelector):
            raise self.claim.fault(
                "SGK122", f"create_selector returned {selector!r}, expected a SubgraphSelector"
            )
        return selector

    def flag(self, selector: SubgraphSelector, name: str) -> bool:
        """Return ``stateless`` or ``splittable``; SelectorContractError (SGK121) if that fails."""
        with self.blame("SGK121", name):
            return bool(getattr(selector, name))

    def filter(self, selector: SubgraphSelector, candidates: Sequence[Node]) -> set[int]:
        """Return the candidates a selector keeps; SelectorContractError (SGK121) for others."""
        claim, first = self.claim, candidates[0] if candidates else None
        with self.blame("SGK121", "filter", first):
            answer: Any = selector.filter(list(candidates))
            if not isinstance(answer, Iterable):
                raise claim.fault(
                    "SGK121",
                    f"filter{_about('filter', first)} returned {answer!r}, expected the nodes to "
                    "keep",
                    "Return the candidates to keep all of them, and an empty list to keep none.",
                )
            listed: list[Any] = list(answer)
        allowed = {node.id for node in candidates}
        for node in listed:
            place = getattr(node, "id", None)
            if place not in allowed:
                shown = repr(node) if place is None else node.label
                raise claim.fault(
                    "SGK121",
                    f"filter returned {shown}, which was not among its {len(candidates)} "
                    "candidates",
                    "filter may drop candidates and must not add nodes.",
                )
        return {node.id for node in listed}

    def groups(self) -> list[list[int]]:
        """Return the node sets to keep together; SelectorContractError (SGK122) for others."""
        claim, groups = self.claim, []
        with self.blame("SGK122", "groups"):
            answer: Any = claim.property.groups(self.graph)
            if not isinstance(answer, Iterable):
                raise claim.fault("SGK122", f"groups returned {answer!r}, expected sets of indices")
            for group in answer:
                if not isinstance(group, Iterable) or isinstance(group, str):
                    text = f"groups named {group!r}, expected a set of indices"
                    raise claim.fault("SGK122", text)
                groups.append([self._node_index(member) for member in group])
        return groups

    def _node_index(self, member: Any) -> int:
        count, place = len(self.graph.table.op_types), whole_number(member)
        if place is None or not 0 <= place < count:
            raise self.claim.fault(
                "SGK122",
                f"groups named {member!r}, expected indices of nodes from 0 to {count - 1}",
            )
        return place

    @contextmanager
    def blame(self, code: str, question: str, node: Node | None = None) -> Iterator[None]:
        """Turn an error from a backend's method into one that names the backend.

        Errors that name a backend pass, and so do those of an option that does not fit the model.
        Errors that are the model's fault or ours get a note about the question and pass.
        """
        try:
            yield
        except (BackendError, OptionError):
            raise
        except (InternalError, ModelError) as error:
            claim = self.claim
            error.add_note(
                f"Raised in {question}{_about(question, node)}, by property "
                f"{claim.property_name!r} of backend {claim.backend.name!r}."
            )
            raise
        except BaseException as error:
            pass_on(error)
            text = error.message if isinstance(error, SubgraphkitError) else str(error)
            hint = error.hint if isinstance(error, SubgraphkitError) else ""
            raise self.claim.fault(
                code,
                f"{question}{_about(question, node)} raised {type(error).__name__}: {text}",
                f"{hint}\n{AT_FAULT}".lstrip(),
            ) from error

    def ask(
        self, asked: SubgraphSelector | SubgraphProperty, question: str, *given: Any, about: Node
    ) -> Refusal | None:
        """Ask about a node or its region, None is yes; SelectorContractError for no answer."""
        code = "SGK121" if isinstance(asked, SubgraphSelector) else "SGK122"
        with self.blame(code, question, about):
            answer = getattr(asked, question)(*given)
        return self._read(question, about, answer, code)

    def may_enter(self, node: Node, value: str) -> Refusal | None:
        """Ask whether a value may enter a region at a node; None means yes."""
        return self._at_edge("input", node, value)

    def may_leave(self, node: Node, value: str) -> Refusal | None:
        """Ask whether a value that a node makes may leave a region; None means yes."""
        return self._at_edge("output", node, value)

    def _at_edge(self, side: Side, node: Node, value: str) -> Refusal | None:
        if not self.watches_boundary:
            return None
        key = (side, node.id, value)
        if key not in self._at_edges:
            asked = self.claim.property
            refusal = self.ask(asked, "accept_boundary", node, value, side, about=node)
            if refusal is not None and refusal.code == "declined":
                verb = "enter" if side == "input" else "leave"
                type_ = self.graph.types.get(value)
                text = f"value {value!r} ({type_}) may not {verb} a subgraph of the backend here"
                refusal = Refusal("border", text)
            self._at_edges[key] = refusal
        return self._at_edges[key]

    def ask_each(
        self,
        selector: SubgraphSelector,
        order: "array[int]",
        candidates: bytearray,
        refusals: RefusalColumn,
    ) -> bytearray:
        """Ask a stateless selector about each candidate once."""
        graph, select = self.graph, selector.select
        wanted, left = bytearray(len(candidates)), candidates
        own = type(selector).select is OpSelector.select and "select" not in vars(selector)
        if isinstance(selector, OpSelector) and own:  # nothing was put in place of it
            left = self._ask_by_operator(selector, order, candidates, wanted, refusals)
        node: Node | None = None
        try:
            for rank in compress(range(len(left)), left):
                node = Node(graph, order[rank])
                answer = select(node)
                refusal = None if answer is True else self._read("select", node, answer, "SGK121")
                if refusal is None:
                    wanted[rank] = 1
                else:
                    refusals.refuse(node.id, refusal)
        except BaseException:
            # Blamed once out here, so that the loop pays nothing for it.
            with self.blame("SGK121", "select", node):
                raise
        return wanted

    def _ask_by_operator(
        self,
        selector: OpSelector,
        order: "array[int]",
        candidates: bytearray,
        wanted: bytearray,
        refusals: RefusalColumn,
    ) -> bytearray:
        """Answer for all nodes of an operator at once; return the ranks left to ask about."""
        table = self.graph.table
        ranks = np.flatnonzero(np.frombuffer(candidates, np.uint8))
        nodes = as_ints(order)[ranks]
        listed = nodes.tolist()
        verdicts = _Verdicts(selector)
        columns = table.domains, table.op_types
        keys = zip(*(map(column.__getitem__, listed) for column in columns), strict=True)
        with self.blame("SGK121", "select"):
            codes = np.fromiter(map(verdicts.__getitem__, keys), np.int64, len(listed))
        np.frombuffer(wanted, np.uint8)[ranks[codes == _TAKEN]] = 1
        for node, code in zip(nodes[codes > _TAKEN].tolist(), codes[codes > _TAKEN], strict=True):
            refusals.refuse(node, verdicts.refusals[code])
        left = np.zeros(len(candidates), np.uint8)
        left[ranks[codes == _OPEN]] = 1
        return bytearray(left.tobytes())

    def _read(self, question: str, node: Node, answer: Any, code: str) -> Refusal | None:
        """Turn an answer into a refusal, or None for yes."""
        if answer is True:
            return None
        if type(answer) is Refusal:
            return answer
        problem, cause = ", expected True, False or a Refusal", None
        if isinstance(answer, Refusal):
            try:
                # A subclass may have overridden the check of its fields.
                return Refusal(answer.code, answer.text)
            except ConfigError as error:
                problem, cause = f": {error.message}", error
        elif isinstance(answer, bool | np.bool_):
            name = self.claim.property_name
            no_reason = Refusal("declined", f"property {name!r} said no without giving a reason")
            return None if answer else no_reason
        raise self.claim.fault(
            code,
            f"{question}{_about(question, node)} returned {answer!r}{problem}",
            "" if cause else "Return a Refusal(code, text) to say no with a reason.",
        ) from cause


def _about(question: str, node: Node | None) -> str:
    if node is None:
        return ""
    where = "the region that starts at node" if question in _ABOUT_REGIONS else "node"
    return f" for {where} {node.label}"


_OPEN, _TAKEN = 0, 1


class _Verdicts(dict[tuple[str, str], int]):
    """By domain and operator, the answer for its nodes; asked for when first looked up."""

    def __init__(self, selector: OpSelector) -> None:
        super().__init__()
        self.refusals: dict[int, Refusal] = {}
        self._ask = selector.answer_by_operator

    def __missing__(self, key: tuple[str, str]) -> int:
        domain, operator = key
        answer = self._ask(f"{domain}::{operator}" if domain else operator)
        verdict = _TAKEN if answer is True else _OPEN
        if isinstance(answer, Refusal):
            verdict = _TAKEN + 1 + len(self.refusals)
            self.refusals[verdict] = answer
        self[key] = verdict
        return verdict
