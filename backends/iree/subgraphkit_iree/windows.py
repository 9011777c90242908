"""Windows that slide over an array: what IREE computes otherwise than ONNX says."""

import subgraphkit as sk

_CHANNELS = 2


def are_fixed(node: sk.Node, place: int = 0, first: int = 0) -> bool:
    """Say whether all sizes of an input are known, from an axis on."""
    return all(isinstance(size, int) for size in (node.shape(place) or ())[first:])


def average_problem(node: sk.Node) -> str:
    """Look whether a window may reach beyond the padding, by which IREE divides as well."""
    if max(node.attribute("kernel_shape")) == 1 and _steps(node) > 1:
        return "windows of one element that skip others, before which IREE forgets to compute"
    if node.attribute("ceil_mode", 0) and node.attribute("count_include_pad", 0):
        return "windows beyond the padding that is counted"
    if node.attribute("ceil_mode", 0) and not are_fixed(node):
        return "windows rounded up beside open sizes, by which it divides otherwise"
    return window_problem(node)


def largest_problem(node: sk.Node) -> str:
    """Look for indices, and for sizes that IREE gets wrong: it writes beside what it makes."""
    kernel, pads = node.attribute("kernel_shape"), node.attribute("pads", None) or ()
    if any(node.outputs[1:]):
        return "indices, which IREE counts in each channel"
    is_uneven = pads[: len(kernel)] != pads[len(kernel) :] and not are_fixed(node)
    if is_uneven or (node.attribute("ceil_mode", 0) and min(kernel) == 1):
        return "windows of one element that are rounded up, or uneven padding of open sizes"
    return window_problem(node)


def window_problem(node: sk.Node, filters: int = 1) -> str:
    """Refuse windows that may be wider than what they slide over: the process may end."""
    sizes = (node.shape(0) or ())[_CHANNELS:]
    kernel = node.attribute("kernel_shape", None) or (node.shape(filters) or ())[_CHANNELS:]
    pads = node.attribute("pads", None) or (0,) * 2 * len(sizes)
    dilations = node.attribute("dilations", None) or (1,) * len(sizes)
    if "SAME" in node.attribute("auto_pad", ""):
        is_open = not are_fixed(node, first=_CHANNELS)
        return "padding to the same size of an open size, of which it computes none" * is_open
    for axis, (size, taps) in enumerate(zip(sizes, kernel, strict=False)):
        around = pads[axis] + pads[axis + len(sizes)]
        reach = (taps - 1) * dilations[axis] if isinstance(taps, int) else around
        if not isinstance(size, int) and reach > around:
            return "windows that may be wider than an open size, beside which it writes"
    return ""


def padded_before(node: sk.Node) -> str:
    """Refuse padding of a size that is not stated, and in front of strides."""
    if "SAME" in node.attribute("auto_pad", ""):
        return "padding to the same size, which IREE takes otherwise where steps are wide"
    maker = node.producer(0)
    while maker is not None and maker.op_type == "Identity":
        maker = maker.producer(0)
    wrong = maker is not None and maker.op_type == "Pad" and _steps(node) > 1
    return "padding in front of strides, with which IREE takes other places" if wrong else ""


def _steps(node: sk.Node) -> int:
    return int(max(node.attribute("strides", None) or (1,)))


def frames_problem(node: sk.Node) -> str:
    """Look for a batch or window of open size in a Fourier transform of frames."""
    window = (node.shape(2) or ("",)) if any(node.inputs[2:3]) else ()
    is_fixed = all(isinstance(size, int) for size in (*(node.shape(0) or ("",))[:1], *window))
    return "" if is_fixed else "a batch or window of open size, where IREE leaves the window out"
