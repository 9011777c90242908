"""Matrix products."""

from typing import Final

from subgraphkit.ir import Node
from subgraphkit_onednn.lowering.draft import DraftTensor, GraphDraft, has_input, lowers, require

_MOST_AXES: Final = 6


@lowers("MatMul")
def matrix_product(draft: GraphDraft, node: Node) -> None:
    """Lower a product of stacks of matrices; a vector is a matrix of one row or column."""
    names = node.inputs
    a, b = draft.value(names[0]), draft.value(names[1])
    y = draft.result(node)
    vector_a, vector_b = len(a.dims) == 1, len(b.dims) == 1
    rank = max(len(a.dims), len(b.dims), 2)
    told = f"oneDNN multiplies matrices of up to {_MOST_AXES} axes, not {rank}"
    require(rank <= _MOST_AXES, "rank", told)
    rows = (1, *a.dims) if vector_a else a.dims
    columns = (*b.dims, 1) if vector_b else b.dims
    # Stacks of other rank are given the axes they lack, so that the library need not guess.
    a = draft.view(names[0], (1,) * (rank - len(rows)) + rows)
    b = draft.view(names[1], (1,) * (rank - len(columns)) + columns)
    batch = tuple(max(pair) for pair in zip(a.dims[:-2], b.dims[:-2], strict=True))
    dims = (*batch, a.dims[-2], b.dims[-1])
    made = y if dims == y.dims else draft.like(y, dims)
    draft.stand_for(node.outputs[0], draft.add("matmul", [a, b], made))


@lowers("Gemm")
def general_product(draft: GraphDraft, node: Node) -> None:
    """Lower a product of two matrices, scaled, with a third matrix added, scaled."""
    a, b = draft.value(node.inputs[0]), draft.value(node.inputs[1])
    y = draft.result(node)
    alpha, beta = (float(node.attribute(name, 1.0)) for name in ("alpha", "beta"))
    flags = {f"transpose_{one}": bool(node.attribute(f"trans{one.upper()}", 0)) for one in "ab"}
    if has_input(node, 2):
        draft.value(node.inputs[2])  # its type must be known, even if nobody reads it
    has_c = has_input(node, 2) and beta != 0
    if has_c and alpha == beta == 1 and draft.value(node.inputs[2]).dims == y.dims[1:]:
        draft.add("matmul", [a, b, draft.value(node.inputs[2])], y, **flags)
        return
    steps: list[tuple[str, DraftTensor]] = []
    if alpha != 1:
        steps.append(("multiply", draft.full(alpha, (1, 1), y.dtype)))
    if has_c:
        steps.append(("add", _scale_addend(draft, node, beta)))
    product = draft.add("matmul", [a, b], draft.like(y) if steps else y, **flags)
    for place, (kind, operand) in enumerate(steps):
        output = y if place == len(steps) - 1 else draft.like(y)
        product = draft.add(kind, [product, operand], output)


def _scale_addend(draft: GraphDraft, node: Node, beta: float) -> DraftTensor:
    dims = draft.value(node.inputs[2]).dims
    c = draft.view(node.inputs[2], (1,) * (2 - len(dims)) + dims)
    if beta == 1:
        return c
    return draft.add("multiply", [c, draft.full(beta, (1, 1), c.dtype)], draft.like(c))
