"""Putting questions to selectors and properties, and holding them to their contracts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import compress
from typing import Any

import numpy as np

from subgraphkit.backend.refusal import Refusal
from subgraphkit.backend.selector import OpSelector, SubgraphSelector
from subgraphkit.errors import SubgraphkitError
from subgraphkit.ir import BoundGraph, Node
from subgraphkit.partitioning.claimants import Claim
from subgraphkit.partitioning.columns import as_ints
from subgraphkit.partitioning.refusing import RefusalColumn
from subgraphkit.partitioning.workspace import Workspace

__all__ = ["Inquiry", "read_answer"]


def read_answer(claim: Claim, question: str, node: Node, answer: Any) -> Refusal | None:
    """Turn an answer into a refusal, or None for yes.

    Raises:
        SelectorContractError: If it is no answer at all (SGK121).
    """
    if answer is True:
        return None
    if isinstance(answer, Refusal):
        return answer
    if isinstance(answer, bool | np.bool_):
        return None if answer else _declined(claim)
    raise claim.fault(
        "SGK121",
        f"{question} for node {node.label} returned {answer!r}, expected True, False or a Refusal",
        "Return a Refusal(code, text) to say no with a reason.",
    )


def _declined(claim: Claim) -> Refusal:
    return Refusal("declined", f"property {claim.property_name!r} said no without giving a reason")


class Inquiry:
    """One property's questioning: makes its selectors, and blames it for what they raise.

    Args:
        claim: The property asked.
        graph: The graph it is asked about.
    """

    def __init__(self, claim: Claim, graph: BoundGraph) -> None:
        self.claim = claim
        self.graph = graph

    def new_selector(self) -> SubgraphSelector:
        """Make a selector.

        Raises:
            SelectorContractError: ``create_selector`` raised or returned something else (SGK122).
        """
        with self.blame("SGK122", "create_selector"):
            selector = self.claim.property.create_selector(self.graph)
        if not isinstance(selector, SubgraphSelector):
            raise self.claim.fault(
                "SGK122", f"create_selector returned {selector!r}, expected a SubgraphSelector"
            )
        return selector

    @contextmanager
    def blame(self, code: str, question: str, node: Node | None = None) -> Iterator[None]:
        """Turn what a backend's method raises into an error that names the backend."""
        try:
            yield
        except SubgraphkitError:
            raise
        except Exception as error:
            about = f" for node {node.label}" if node is not None else ""
            raise self.claim.fault(
                code,
                f"{question}{about} raised {type(error).__name__}: {error}",
                "This is a fault of the backend; report it to its author.",
            ) from error

    def ask(self, question: str, node: Node, ask: Callable[[], Any], code: str) -> Refusal | None:
        """Put one question about one node; None means yes."""
        with self.blame(code, question, node):
            answer = ask()
        return read_answer(self.claim, question, node, answer)

    def ask_each(
        self,
        selector: SubgraphSelector,
        workspace: Workspace,
        candidates: bytearray,
        refusals: RefusalColumn,
    ) -> bytearray:
        """Ask a stateless selector about each candidate once.

        Args:
            selector: The selector.
            workspace: The work table.
            candidates: By rank, 1 for the nodes to ask about.
            refusals: Where to keep the reasons.

        Returns:
            By rank, 1 for the nodes it takes.
        """
        graph, order, select = self.graph, workspace.order, selector.select
        wanted, left = bytearray(len(candidates)), candidates
        if isinstance(selector, OpSelector) and _selects_by_operator(selector):
            left = self._ask_by_operator(selector, workspace, candidates, wanted, refusals)
        node: Node | None = None
        try:
            for rank in compress(range(len(left)), left):
                node = Node(graph, order[rank])
                answer = select(node)
                if answer is True:
                    wanted[rank] = 1
                    continue
                refusal = read_answer(self.claim, "select", node, answer)
                if refusal is None:
                    wanted[rank] = 1
                else:
                    refusals.refuse(node.id, refusal)
        except Exception:
            # Blamed once out here, so that the loop pays nothing for it.
            with self.blame("SGK121", "select", node):
                raise
        return wanted

    def _ask_by_operator(
        self,
        selector: OpSelector,
        workspace: Workspace,
        candidates: bytearray,
        wanted: bytearray,
        refusals: RefusalColumn,
    ) -> bytearray:
        """Answer for all nodes of an operator at once; return the ranks left to ask about."""
        table = self.graph.table
        ranks = np.flatnonzero(np.frombuffer(candidates, np.uint8))
        nodes = as_ints(workspace.order)[ranks]
        listed = nodes.tolist()
        verdicts = _Verdicts(selector)
        keys = zip(
            map(table.domains.__getitem__, listed),
            map(table.op_types.__getitem__, listed),
            strict=True,
        )
        with self.blame("SGK121", "select"):
            codes = np.fromiter(map(verdicts.__getitem__, keys), np.int64, len(listed))
        np.frombuffer(wanted, np.uint8)[ranks[codes == _TAKEN]] = 1
        for node, code in zip(nodes[codes > _TAKEN].tolist(), codes[codes > _TAKEN], strict=True):
            refusals.refuse(node, verdicts.refusals[code])
        left = np.zeros(len(candidates), np.uint8)
        left[ranks[codes == _OPEN]] = 1
        return bytearray(left.tobytes())


_OPEN, _TAKEN = 0, 1


class _Verdicts(dict[tuple[str, str], int]):
    """By domain and operator, what becomes of its nodes; asked for when first looked up.

    Attributes:
        refusals: The reason for each verdict above ``_TAKEN``.
    """

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


def _selects_by_operator(selector: OpSelector) -> bool:
    """Say whether nothing was put in place of ``OpSelector.select``."""
    return type(selector).select is OpSelector.select and "select" not in vars(selector)
