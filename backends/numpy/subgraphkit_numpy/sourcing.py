"""Python functions from text."""

from types import CodeType


def function_code(source: str, filename: str) -> CodeType:
    """Compile a text that defines one function; return the function's code."""
    module = compile(source, filename, "exec", dont_inherit=True, optimize=2)
    return next(constant for constant in module.co_consts if isinstance(constant, CodeType))
