"""Write a new backend package from the template.

The template is a tree of text files. In them ``$word`` stands for what ``Design.words`` knows; the
folder ``package`` becomes the package, and every file loses its last suffix, which keeps tools from
taking the template for Python.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any, Final

import onnx

from subgraphkit import __version__
from subgraphkit.backend.manifest import OPTIONS_FILE, Manifest
from subgraphkit.backend.messages import did_you_mean
from subgraphkit.backend.options import Option
from subgraphkit.backend.plugin_api import BACKEND_NAME, PLUGIN_API, RESERVED_NAMES
from subgraphkit.cli.scaffolding.typed_options import option_table, render_options
from subgraphkit.configuration.names import KNOWN_BACKENDS
from subgraphkit.errors import CallerError

_HERE: Final = Path(__file__).parent
_TEMPLATE: Final = _HERE / "template"
_PACKAGE: Final = "package"
_CHAIN: Final = ("Conv", "BatchNormalization", "Relu")
"""Operators for which the package has kernels, and tests where it takes just these."""
_FOREIGN: Final = ("LeakyRelu", "Elu", "Celu", "Softsign", "Identity")
"""Operators of which a test needs one that is not taken."""
_SEVERAL_OUTPUTS: Final = """\
    if len(node.outputs) > 1:
        return sk.Refusal("border", f"{len(node.outputs)} outputs, one is computed")
"""
_WITHOUT_KERNELS: Final = """\
        if any(node.op_type not in KERNELS for node in subgraph.members):
            # until there is a kernel, the fallback computes such a region
            return super().create_operator(subgraph, context)
"""
SELECTORS: Final[Mapping[str, str]] = {
    "stateful": "a selector of its own",
    "pattern": "PatternSelector",
    "operators": "OpSelector, every node of some operators",
}
"""The kinds of selectors, each with what it is."""
_OPTION: Final = Option(
    "min_nodes",
    "int",
    default=1,
    minimum=1,
    help="How many nodes a region needs to be worth a call; smaller ones go to the next backend.",
)


@dataclass(frozen=True, slots=True)
class Design:
    """The choices about a new backend, from which all that is written follows.

    Attributes:
        operators: What it takes; in a chain, in their order. Some that suit the selector if empty.

    Raises:
        CallerError: No new backend may be called that (SGK330), or it cannot be as described
            (SGK243).
    """

    name: str
    selector: str = "stateful"
    operators: Sequence[str] = ()
    options: Sequence[Option] = field(default=())

    def __post_init__(self) -> None:
        """Fill the operators in, and check all."""
        problem = _objection(self.name)
        if problem:
            raise CallerError(
                "SGK330",
                f"a new backend cannot be called {self.name!r}: {problem}",
                hint="A name has up to 32 lower-case letters, digits and underscores, such as "
                "'acme_npu'.",
                name=self.name,
            )
        object.__setattr__(self, "operators", tuple(self.operators) or _CHAIN)
        known = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
        for one in self.operators:
            if one not in known:
                raise CallerError(
                    "SGK243",
                    f"ONNX has no operator {one!r}{did_you_mean(one, sorted(known))}",
                    hint="Name operators of the default domain, such as Conv,Relu.",
                )
        names = [_OPTION.name, *(option.name for option in self.options)]
        twice = next((one for one in names if names.count(one) > 1), "")
        if twice:
            own = " by itself" if twice == _OPTION.name else ""
            text = f"option {twice!r} is declared twice; the package has it{own}"
            raise CallerError("SGK243", text, hint="Leave it out.")

    @property
    def distribution(self) -> str:
        """Name of the distribution."""
        return f"subgraphkit-{self.name.replace('_', '-')}"

    @property
    def package(self) -> str:
        """Name of the package."""
        return f"subgraphkit_{self.name}"

    @property
    def manifest(self) -> Manifest:
        """The manifest, as far as the typed options come from it."""
        return Manifest(self.name, PLUGIN_API, options=(_OPTION, *self.options))

    def words(self) -> dict[str, Any]:
        """Return by word what is to be in the gaps of the template."""
        stem = "".join(part.capitalize() for part in self.name.split("_"))
        major, minor = (int(part) for part in __version__.split(".")[:2])
        sort = f"{', '.join(self.operators[:-1])} and {self.operators[-1]}".removeprefix(" and ")
        text = f"chains of {sort}" if self.selector != "operators" else sort
        options = self.manifest.options
        return {
            "name": self.name,
            "upper": self.name.upper(),
            "distribution": self.distribution,
            "package": self.package,
            "backend_class": f"{stem}Backend",
            "property_class": f"{stem}Property",
            "selector_class": f"{stem}Selector",
            "operator_class": f"{stem}Operator",
            "api": ".".join(map(str, PLUGIN_API)),
            "bounds": f">={major}.{minor},<{major}.{minor + 1}",
            "summary": f"Takes {text} in float32 and computes with NumPy",
            "takes": f"It takes {text} in float32 and computes\nthem with NumPy.",
            "option_tables": "\n".join(map(option_table, options)),
            "option_rows": "\n".join(
                f"| `{one.name}` | {'' if one.default is None else one.default} | {one.help} |"
                for one in options
            ),
            "foreign": next((one for one in _FOREIGN if one not in self.operators), "Sin"),
            **self._about_selector(f"{stem}Selector"),
        }

    def _about_selector(self, selector_class: str) -> dict[str, str]:
        every, has_kernels = self.operators, set(self.operators) <= {*_CHAIN}
        lines = "".join(f'    "{operator}",\n' for operator in every)
        chain = "The chain, in this order; all but the first may be absent."
        inputs = "{node.dtype(place).label for place, name in enumerate(node.inputs) if name}"
        from_kernels = f"from {self.package}.kernels import KERNELS\n"
        return {
            "selector": _part(
                f"selectors/{self.selector}", {"selector_class": selector_class}
            ).rstrip(),
            "selector_arguments": "" if self.selector == "stateful" else "graph",
            "operators": f'("{every[0]}",)' if len(every) == 1 else f"(\n{lines})",
            "operators_meaning": "What is taken." if self.selector == "operators" else chain,
            "dtypes": inputs if has_kernels else "{node.dtype().label}",
            "several": _SEVERAL_OUTPUTS if has_kernels else "",
            "without_kernels": "" if has_kernels else _WITHOUT_KERNELS,
            "backend_imports": "" if has_kernels else from_kernels,
        }


def write_package(design: Design, folder: Path) -> list[Path]:
    """Write the package.

    Raises:
        CallerError: The folder holds something already, or cannot be written to (SGK331).
    """
    files = dict(_rendered(design))
    try:
        if folder.exists() and any(folder.iterdir()):
            raise _no_place(folder, "it is not empty")
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise _no_place(folder, error.strerror or str(error)) from error
    return sorted(files)


def _rendered(design: Design) -> Iterator[tuple[Path, str]]:
    words = design.words()
    words["tests"] = _part(f"own_tests/{'chain' if design.operators == _CHAIN else 'other'}", words)
    for source in sorted(_TEMPLATE.rglob("*.txt")):
        path = source.relative_to(_TEMPLATE).with_suffix("")
        if path.parts[0] == _PACKAGE:
            path = Path(design.package, *path.parts[1:])
        text = Template(source.read_text(encoding="utf-8")).substitute(words)
        yield path, text.rstrip() + "\n"
    yield Path(design.package, OPTIONS_FILE), render_options(design.manifest)


def _part(name: str, words: Mapping[str, str]) -> str:
    return Template((_HERE / f"{name}.txt").read_text(encoding="utf-8")).substitute(words)


def _objection(name: str) -> str:
    if BACKEND_NAME.fullmatch(name) is None:
        return "that is not the form of a backend's name"
    if name in RESERVED_NAMES:
        return "that word has a meaning of its own in a selection"
    if name in KNOWN_BACKENDS:
        return "subgraphkit publishes a backend of that name"
    return ""


def _no_place(folder: Path, problem: str) -> CallerError:
    return CallerError(
        "SGK331",
        f"a new backend cannot be written to {str(folder)!r}: {problem}",
        hint="Name another folder: subgraphkit author new-backend NAME DIR.",
        folder=str(folder),
    )
