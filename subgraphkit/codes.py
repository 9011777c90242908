"""The codes of all errors, and those for which the machine is to blame.

A code is stable: it never changes its meaning.
"""

from collections.abc import Mapping
from typing import Final

CODES: Final[Mapping[str, str]] = {
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
    # partitioning
    "SGK120": "nodes are claimed by no backend",
    "SGK121": "a selector broke its contract",
    "SGK122": "a property broke its contract",
    "SGK123": "a constraint on the partitioning cannot be met",
    "SGK124": "a plan file cannot be read, or is of another model",
    "SGK125": "a backend that was named has less of a model than was asked for",
    # whom to trust
    "SGK126": "a file that nobody vouches for, or a spec, names code or widens trust",
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
    "SGK155": "an engine was not seen to come back as it was compiled, and is not kept",
    # TensorRT
    "SGK156": "the TensorRT library has no kernels for a GPU",
    "SGK157": "a GPU cannot compute in the precision that is asked for",
    "SGK160": "the TensorRT library cannot do what an option asks for",
    "SGK161": "options of the TensorRT backend contradict one another",
    "SGK162": "a call of TensorRT failed while an engine was made",
    "SGK163": "a call of TensorRT failed while an engine was loaded or run",
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
    "SGK188": "weights are to be read, or read again, from a file that was changed meanwhile",
    "SGK190": "an extension failed and was switched off",
    "SGK191": "an extension implements a hook that does not exist",
    # sessions elsewhere
    "SGK192": "a session, or a call that would open one, has no spec",
    "SGK193": "a spec cannot be read",
    "SGK194": "a model is another than when its spec was made",
    # many requests
    "SGK196": "requests to a model cannot be put together in batches",
    "SGK197": "an input cannot be made up",
    "SGK198": "as many runs wait for their turn as may",
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
    "SGK223": "an extension types an operator of its own as it cannot be",
    "SGK224": "an extension edits a graph as it cannot be",
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
    # backends in the making
    "SGK242": "a backend has no manifest",
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
    "SGK340": "a table cannot go through a model row by row",
    "SGK341": "a server has nothing of that name, or cannot serve it",
    "SGK343": "a message of the Open Inference Protocol cannot be read",
    "SGK344": "a result or a model cannot be written in the Open Inference Protocol",
    "SGK345": "a model cannot be served by Triton",
    # us
    "SGK900": "a bug in subgraphkit",
}

OF_THE_MACHINE: Final = frozenset(
    {
        "SGK104",  # what a backend needs is not here: a device, a driver
        "SGK134",  # memory
        "SGK135",  # time
        "SGK136",  # killed, or crashed
        "SGK138",  # time
        "SGK150",  # permissions of folders
        "SGK151",  # the disk
        "SGK167",  # a library that cannot be loaded
        "SGK174",  # CUDA
        "SGK175",
        "SGK176",
        "SGK188",  # a file that was changed
    }
)
"""Codes that say that the place is at fault: on another machine, or later, the same may succeed."""
