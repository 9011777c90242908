"""Every exception subgraphkit raises, grouped by who can mend it.

``ModelError`` is for the model's author, ``CallerError`` for the caller, ``BackendError`` for the
author of a backend, and ``InternalError`` for us. Each error carries a stable code (``SGK103``), a
message that says what failed, what was expected and what was found, and a hint that says what to
do. The codes are listed in ``CODES`` and rendered in golden tests, so a code never changes meaning.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from subgraphkit.texts import paragraph, printable

__all__ = [
    "CODES",
    "BackendConflictError",
    "BackendError",
    "BackendIncompatibleError",
    "BackendLoadError",
    "BackendNotFoundError",
    "BackendUnavailableError",
    "BindError",
    "BundleError",
    "CacheError",
    "CallerError",
    "CompileError",
    "CompileTimeoutError",
    "ConfigError",
    "ExecutionError",
    "InputError",
    "InternalError",
    "InvalidModelError",
    "MemoryLimitError",
    "ModelError",
    "ModelNotFoundError",
    "OptionError",
    "RunCancelledError",
    "RunTimeoutError",
    "SelectorContractError",
    "SubgraphkitError",
    "SubgraphkitWarning",
    "UnclaimedNodesError",
    "UnsupportedModelError",
    "WeightUpdateError",
    "describe_exception",
    "text_of",
]

CODES: Final[Mapping[str, str]] = MappingProxyType(
    {
        # choosing backends
        "SGK101": "a backend that was named is known but not installed",
        "SGK102": "a backend that was named is unknown",
        "SGK103": "a backend is installed but could not be loaded",
        "SGK104": "a backend is installed but cannot run on this machine",
        "SGK105": "a backend needs another version of the plugin API",
        "SGK106": "two distributions provide a backend of the same name",
        "SGK107": "a backend selection cannot be read",
        "SGK108": "a setting has a value of the wrong kind",
        "SGK109": "a configuration file cannot be read",
        "SGK110": "a backend has no option of that name",
        "SGK111": "an option has a value of the wrong type",
        "SGK112": "an option has a value out of its range",
        "SGK113": "options were given for a backend that is not selected",
        "SGK114": "a setting is unknown",
        "SGK115": "a backend was registered or named in a way the registry cannot take",
        "SGK116": "a manifest cannot be read",
        "SGK117": "a backend is blocked by the configuration",
        "SGK118": "an option was given by a deprecated name",
        "SGK119": "a package that is to show progress cannot be imported",
        # partitioning
        "SGK120": "nodes are claimed by no backend",
        "SGK121": "a selector broke its contract",
        "SGK122": "a property broke its contract",
        "SGK123": "a constraint on the partitioning cannot be met",
        "SGK124": "a plan file cannot be read, or is of another model",
        "SGK125": "a backend that was named has less of a model than was asked for",
        # whom to trust
        "SGK126": "a configuration file that nobody vouches for names code, or widens trust",
        "SGK127": "a session or a backend of the parent process cannot be used in a forked child",
        "SGK128": "the metadata of an installed package cannot be read",
        "SGK129": "a package has a backend by the name of one that ships with subgraphkit",
        # compiling and running
        "SGK130": "a backend claimed a subgraph but failed to compile it",
        "SGK131": "a subgraph failed while running",
        "SGK132": "a subgraph returned something other than it declared",
        "SGK133": "weights cannot be updated",
        "SGK134": "a session would need more memory than it may take",
        "SGK135": "compiling took longer than it may",
        "SGK136": "the process in which a backend ran on its own ended",
        "SGK137": "a backend cannot run in a process of its own",
        "SGK138": "a run took longer than it may",
        "SGK139": "a run was cancelled",
        "SGK140": "an input has the wrong shape",
        "SGK141": "an input has the wrong dtype",
        "SGK142": "an input is missing, unknown or given twice",
        "SGK143": "an output of that name does not exist",
        "SGK144": "a session is closed",
        "SGK145": "an input is of a kind that cannot be read",
        "SGK146": "a profile of the session is being taken already",
        "SGK147": "an output is not finite, and the user asked for an error then",
        "SGK149": "a subgraph returned memory that is not its own to give",
        # the engine cache
        "SGK150": "the directory or the key of the engine cache cannot be trusted",
        "SGK151": "the engine cache cannot be read or written",
        "SGK152": "a backend failed to store or to restore an engine",
        # TensorRT
        "SGK160": "the TensorRT library cannot do what an option asks for",
        "SGK161": "options of the TensorRT backend contradict one another",
        "SGK162": "a call of TensorRT failed while an engine was made",
        "SGK163": "a call of TensorRT failed while an engine was loaded or run",
        "SGK164": "an option of another TensorRT integration has no equivalent here",
        "SGK165": "less of a model is on TensorRT than the options ask for",
        "SGK166": "a converter of an operator for TensorRT is wrong",
        "SGK167": "a library of TensorRT plugins cannot be loaded",
        "SGK168": "a module named in an option of the TensorRT backend cannot be imported",
        "SGK169": "shapes for a TensorRT engine are not known, or do not fit the model",
        "SGK170": "the parser of TensorRT does not take a subgraph",
        "SGK171": "the parser of TensorRT makes something else of a subgraph than ONNX says",
        "SGK172": "the builder of TensorRT failed",
        "SGK173": "TensorRT does not take an option for this engine or this device",
        "SGK174": "a call of CUDA's runtime library failed",
        "SGK175": "CUDA's runtime library cannot be used",
        "SGK176": "the GPU has not enough memory",
        "SGK177": "an array on a device cannot be read where it is",
        "SGK178": "no TensorRT engine takes the shapes at hand, and none may be built",
        "SGK179": "a TensorRT engine or its element types do not fit a subgraph",
        # bundles
        "SGK180": "a bundle cannot be written",
        "SGK181": "a directory is not a bundle, or one of a format that is not known",
        "SGK182": "a bundle is damaged",
        "SGK183": "a bundle cannot be trusted",
        "SGK184": "the data of a weight is nowhere but in the engines of a bundle",
        "SGK185": "a bundle is asked for something else than it was exported with",
        "SGK186": "a bundle was made for something else than is here",
        "SGK187": "a backend failed to store or to restore an engine of a bundle",
        # extensions
        "SGK190": "an extension failed and was switched off",
        "SGK191": "an extension implements a hook that does not exist",
        # loading models
        "SGK201": "the model file does not exist or cannot be opened",
        "SGK202": "the bytes are not an ONNX model",
        "SGK203": "the graph has a cycle",
        "SGK204": "a value is assigned more than once",
        "SGK205": "a value is read but never made",
        "SGK206": "an operator set is newer than supported",
        "SGK207": "an operator or its domain is unknown",
        "SGK208": "a tensor's dimensions and payload disagree",
        "SGK209": "bodies are nested too deeply",
        "SGK210": "external data lies outside the folders that are trusted",
        "SGK211": "external data is missing or too short",
        "SGK212": "model-local functions are recursive or cannot be inlined",
        "SGK213": "the source is of a kind that cannot be loaded",
        "SGK214": "the model breaks the ONNX specification",
        "SGK215": "a node has more or fewer inputs or outputs than its operator",
        "SGK216": "a model asks for more than the limits allow",
        "SGK217": "a step would make or need something larger than the limits allow",
        "SGK218": "an attribute of a node is not what its operator allows",
        "SGK219": "a model made a step of the road fail in a way that nobody foresaw",
        # binding
        "SGK220": "a shape was given for an input or symbol that does not exist",
        "SGK221": "a given shape contradicts the model",
        "SGK222": "types or shapes of the model contradict each other",
        # precision
        "SGK230": "a model cannot be rewritten in the precision asked for",
        "SGK231": "a precision cannot be carried out as it was asked for",
        "SGK232": "ranges belong to another model",
        "SGK233": "ranges cannot be read or written",
        "SGK234": "a model cannot be calibrated with the batches given",
        "SGK235": "quantisation that a model came with is not symmetric",
        "SGK236": "a rewritten model is less accurate than asked for",
        "SGK237": "no rewriting of a model is as accurate as asked for",
        # torch.compile
        "SGK240": "a graph that PyTorch captured cannot be made a model",
        "SGK241": "a gradient is asked for through a graph that is not run by PyTorch",
        # command line
        "SGK301": "the command line cannot be carried out as written",
        # conformance kit
        "SGK310": "the conformance kit cannot test a backend as it was asked to",
        # comparing
        "SGK320": "a backend took down the process it was tried in",
        "SGK321": "a backend did not return in time",
        "SGK322": "a backend computes something other than expected",
        "SGK323": "results agree on inputs for which this means nothing",
        "SGK324": "what was found to be at fault cannot be written",
        "SGK330": "a new backend cannot be given that name",
        "SGK331": "a new backend cannot be written there",
        "SGK332": "the typed options of a backend cannot be written there",
        # serving
        "SGK343": "a message of the Open Inference Protocol cannot be read",
        "SGK344": "a result or a model cannot be written in the Open Inference Protocol",
        "SGK345": "a model cannot be served by Triton",
        # us
        "SGK900": "a bug in subgraphkit",
    }
)


class SubgraphkitWarning(UserWarning):
    """A warning about something the user should change; results are right nevertheless."""

    def __init__(self, message: str) -> None:
        super().__init__(paragraph(message))


class SubgraphkitError(Exception):
    """Base class of every error that subgraphkit raises on purpose.

    Attributes:
        code: Stable identifier, a key of ``CODES``.
        message: What failed, what was expected, what was found; no trailing full stop. It is
            printable, whatever the names in it.
        hint: What to do about it; one line per remedy, or an empty string.
        context: Facts for programs (names, indices); keys depend on the code.
    """

    def __init__(self, code: str, message: str, *, hint: str = "", **context: Any) -> None:
        """Build an error.

        Args:
            code: A key of ``CODES``.
            message: What failed, what was expected, what was found.
            hint: What to do; printed indented below the message.
            **context: Facts for programs.
        """
        self.code = code
        self.message = printable(message, keep="\n\t")
        self.hint = printable(hint, keep="\n\t")
        self.context: dict[str, Any] = context
        super().__init__(self.message)

    def __str__(self) -> str:
        """Render as ``[code] message`` with the hint indented below."""
        lines = [paragraph(f"[{self.code}] {self.message}")]
        lines += [f"  {line}" for line in self.hint.splitlines()]
        return "\n".join(lines)


class ModelError(SubgraphkitError):
    """The model is at fault; its author can mend it."""


class InvalidModelError(ModelError, ValueError):
    """The model breaks a rule of ONNX, or its bytes are damaged."""


class UnsupportedModelError(ModelError):
    """The model is valid but uses something that subgraphkit does not support."""


class CallerError(SubgraphkitError):
    """The call is at fault; the caller can mend it."""


class ModelNotFoundError(CallerError, FileNotFoundError):
    """The model file does not exist or cannot be opened."""


class ConfigError(CallerError, ValueError):
    """A selection, setting or configuration file cannot be read."""


class OptionError(CallerError, ValueError):
    """A backend option is unknown, of the wrong type, or out of range."""


class BackendNotFoundError(CallerError, LookupError):
    """A backend that was named is not installed or not known."""


class BindError(CallerError, ValueError):
    """The shapes given to ``bind`` do not fit the model."""


class InputError(CallerError, ValueError):
    """``run`` was given feeds or output names that the model does not have."""


class UnclaimedNodesError(CallerError):
    """Nodes are claimed by no backend, or less of a model by one than was asked for."""


class MemoryLimitError(CallerError, MemoryError):
    """A session would need more memory than it may take; nothing was compiled."""


class CacheError(CallerError, OSError):
    """The engine cache cannot be used; results do not depend on it."""


class BundleError(CallerError):
    """A bundle cannot be written, or cannot be opened here."""


class WeightUpdateError(CallerError, ValueError):
    """New weights do not fit the model, or a subgraph cannot take them."""


class CompileTimeoutError(CallerError, TimeoutError):
    """Compiling took longer than it may."""


class RunTimeoutError(CallerError, TimeoutError):
    """A run took longer than it may; the session can be run again."""


class RunCancelledError(CallerError):
    """A run was cancelled; the session can be run again."""


class BackendError(SubgraphkitError):
    """A backend is at fault; its author can mend it.

    Attributes:
        backend: Name of the backend.
        subgraph: Identifier of the subgraph concerned, or None.
    """

    def __init__(  # noqa: D417 (the other arguments are those of the base class)
        self,
        code: str,
        message: str,
        *,
        backend: str,
        subgraph: str | None = None,
        hint: str = "",
        **context: Any,
    ) -> None:
        """Build an error of a backend.

        Args:
            backend: Name of the backend.
            subgraph: Identifier of the subgraph concerned, or None.
        """
        super().__init__(code, message, hint=hint, **context)
        self.backend = backend
        self.subgraph = subgraph


class BackendLoadError(BackendError, ImportError):
    """A backend is installed but its import or registration failed."""


class BackendUnavailableError(BackendError, RuntimeError):
    """A backend is loaded but cannot run on this machine."""


class BackendIncompatibleError(BackendError):
    """A backend needs another version of the plugin API."""


class BackendConflictError(BackendError):
    """Two distributions provide a backend of the same name."""


class SelectorContractError(BackendError):
    """A selector or property returned something its contract forbids."""


class CompileError(BackendError):
    """A backend claimed a subgraph but failed to compile it."""


class ExecutionError(BackendError, RuntimeError):
    """A subgraph failed while running, or returned something other than declared."""


class InternalError(SubgraphkitError):
    """A bug in subgraphkit; the message asks for a report."""

    def __init__(self, message: str, **context: Any) -> None:
        """Build an internal error.

        Args:
            message: The broken invariant, with the facts that show it.
            **context: Facts for programs.
        """
        hint = "This is a bug in subgraphkit; report it with the model and this message."
        super().__init__("SGK900", message, hint=hint, **context)


def text_of(error: BaseException) -> str:
    """Return the text of an exception, also of one whose own way to word it fails."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 (code of a plugin)
        return "it cannot be put into words"


def describe_exception(error: BaseException) -> str:
    """Return the type and the first line of the text of an exception."""
    text = text_of(error).strip().split("\n", 1)[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
