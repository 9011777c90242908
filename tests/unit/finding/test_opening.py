"""Backends that are opened, and their properties."""

import importlib
from functools import partial

import pytest

from subgraphkit import errors
from subgraphkit.backend import (
    Backend,
    FallbackEvent,
    OpSelector,
    Option,
    ProbeResult,
    SubgraphProperty,
    hookimpl,
)
from subgraphkit.backend.contract import lack_of
from subgraphkit.backend.options import PlainOptions
from subgraphkit.configuration.config import resolve
from subgraphkit.configuration.names import KNOWN_BACKENDS
from subgraphkit.finding.catalogue import list_backends
from subgraphkit.finding.loading import properties_of, register_property, unregister_property
from subgraphkit.finding.opening import open_backends, open_fallback, open_in_turn
from subgraphkit.finding.registry import registered


class Alpha(Backend):
    name = "alpha"
    options = (Option("level", int, 1), Option("size", "bytes"))

    def properties(self):
        return []


class Beta(Alpha):
    name = "beta"


class NoDevice(Alpha):
    name = "no_device"

    @classmethod
    def probe(cls, *, deep=False):
        del deep
        return ProbeResult(available=False, problems=("no device",), hint="Plug one in.")


class Counting(Alpha):
    name = "counting"
    probes = 0

    @classmethod
    def probe(cls, *, deep=False):
        cls.probes += 1
        return super().probe(deep=deep)


class Raising(Alpha):
    name = "raising"

    def __init__(self, options):
        super().__init__(options)
        raise RuntimeError("no memory")


def names(**settings):
    return [backend.name for backend in open_backends(resolve(**settings))]


def state(name):
    return next(record.state for record in list_backends() if record.name == name)


def test_backends_are_opened_in_the_order_selected():
    with registered(Alpha), registered(Beta):
        assert names(backend="beta,alpha") == ["beta", "alpha"]
        assert state("alpha") == "ready"


def test_options_are_typed_and_read_only():
    with registered(Alpha):
        (backend,) = open_backends(
            resolve(backend="alpha:level=3", options={"alpha": {"size": "1KiB"}})
        )
    assert backend.option_values == PlainOptions(level=3, size=1024)
    with pytest.raises(AttributeError, match="read-only"):
        backend.option_values.level = 4
    with pytest.raises(AttributeError, match="read-only"):
        del backend.option_values.level


def test_classes_and_instances_need_no_registration():
    instance = Beta(PlainOptions(level=9))
    opened = open_backends(resolve(backend=[(Alpha, {"level": 2}), instance]))
    assert opened[0].option_values.level == 2
    assert opened[1] is instance


@pytest.mark.parametrize("hooks", [False, True])
def test_a_dry_run_opens_what_plans_in_the_place_of_a_backend_that_cannot_run(*, hooks):
    class Planner(NoDevice):
        @classmethod
        def planner(cls, options):
            return cls(options)

    class Hooks:
        @hookimpl
        def subgraphkit_backend(self, options):
            return Planner(options)

    def opened(selection):
        *_, last = open_in_turn(resolve(backend=selection), dry_run=True)
        return last

    with registered(Hooks() if hooks else Planner, "no_device"), registered(Alpha):
        alpha, planner = opened("alpha,no_device:level=3")
        assert (lack_of(alpha), planner.option_values.level) == (None, 3)
        lack = lack_of(planner)
        assert lack is not None
        assert lack.code == "SGK104"
        assert [one.name for one in opened("no_device?,alpha")] == ["alpha"]
        with pytest.raises(errors.BackendUnavailableError, match="no device"):
            names(backend="no_device")
        with pytest.raises(errors.BackendUnavailableError, match="blocked"):
            next(
                open_in_turn(resolve(backend="alpha,no_device", block=["no_device"]), dry_run=True)
            )


def test_a_planner_that_makes_something_else_is_refused():
    class Wrong(NoDevice):
        @classmethod
        def planner(cls, options):
            return "a plan"

    with (
        registered(Wrong),
        pytest.raises(errors.BackendLoadError, match="its planner returned 'a plan'"),
    ):
        next(open_in_turn(resolve(backend="no_device"), dry_run=True))


def test_an_optional_backend_is_left_out_quietly_and_the_event_tells():
    events: list[FallbackEvent] = []
    with registered(Alpha), registered(NoDevice):
        resolved = resolve(backend="zzz?,no_device?,alpha")
        *_, opened = open_in_turn(resolved, on_skip=events.append)
    assert [backend.name for backend in opened] == ["alpha"]
    assert [(event.level, event.backend, event.code) for event in events] == [
        ("selection", "zzz", "SGK102"),
        ("selection", "no_device", "SGK104"),
    ]


def test_an_optional_backend_that_is_broken_is_warned_of():
    with registered(Raising), pytest.warns(errors.SubgraphkitWarning, match="SGK103.*no memory"):
        assert names(backend="raising?") == []


def test_missing_backends_can_be_warned_of_instead():
    with pytest.warns(errors.SubgraphkitWarning, match="SGK102"):
        assert names(backend="zzz", on_missing="warn") == []


def test_a_backend_that_cannot_run_here_says_why():
    with registered(NoDevice):
        for _ in range(2):
            with pytest.raises(errors.BackendUnavailableError, match="no device") as caught:
                names(backend="no_device")
        assert caught.value.code == "SGK104"
        assert caught.value.hint.startswith("Plug one in.")
        assert state("no_device") == "unavailable"


def test_a_probe_is_asked_once():
    Counting.probes = 0
    with registered(Counting):
        names(backend="counting")
        names(backend="counting")
    assert Counting.probes == 1


@pytest.mark.parametrize(
    ("probe", "code"), [(lambda **_: 1 / 0, "SGK104"), (lambda **_: None, "SGK115")]
)
def test_a_probe_that_breaks_its_contract_is_an_error(probe, code):
    bad = type("Bad", (Alpha,), {"name": "bad", "probe": staticmethod(probe)})
    for selection in ("bad", bad):
        with registered(bad), pytest.raises(errors.BackendError, match=code):
            names(backend=selection)


def test_a_constructor_that_raises_is_an_error_of_the_backend():
    with registered(Raising), pytest.raises(errors.BackendLoadError, match=r"SGK103.*no memory"):
        names(backend="raising")
    with registered(Raising), pytest.raises(RuntimeError, match="no memory") as raw:
        names(backend="raising", raise_plugin_errors=True)
    assert not isinstance(raw.value, errors.BackendError)


def test_a_wrong_option_raises_even_of_an_optional_backend():
    with registered(Alpha), pytest.raises(errors.OptionError, match="did you mean 'level'"):
        names(backend="alpha?:levle=1")


def test_what_is_no_backend_class_is_refused():
    odd = type("Odd", (), {"name": "odd", "properties": list})
    with pytest.raises(errors.BackendLoadError, match=r"SGK115.*neither a Backend class"):
        names(backend=odd)


def test_a_blocked_backend_is_refused_however_it_is_given():
    with registered(Alpha):
        for selection in ("alpha", Alpha, Alpha()):
            with pytest.raises(errors.BackendUnavailableError, match="SGK117"):
                names(backend=selection, block=["alpha"])


def test_options_nobody_takes_are_warned_of():
    with (
        registered(Alpha),
        pytest.warns(errors.SubgraphkitWarning, match="SGK113.*is not selected"),
    ):
        names(backend="alpha", options={"beta": {"level": 1}})
    with pytest.warns(errors.SubgraphkitWarning, match="SGK113.*as an instance"):
        names(backend=Beta(), options={"beta": {"level": 1}})


def test_options_of_the_fallback_are_taken():
    with registered(Alpha), registered(Beta):
        resolved = resolve(backend="alpha", fallback="beta", options={"beta": {"level": 4}})
        open_backends(resolved)
        fallback = open_fallback(resolved)
    assert fallback is not None
    assert (fallback.name, fallback.option_values.level) == ("beta", 4)


def test_there_may_be_no_fallback():
    assert open_fallback(resolve(fallback="none")) is None


def test_auto_meets_a_plugin_that_aborts_in_a_child_once_and_goes_on(install):
    code = "import os\nprint('here')\nos.abort()"
    package = install("rude", "m_rude", code, "[subgraphkit.backends]\nrude = m_rude:Rude")
    others = sorted(KNOWN_BACKENDS)
    with registered(Alpha):
        with pytest.warns(errors.SubgraphkitWarning, match="SGK320.*rude.*SIGABRT"):
            assert names(backend="alpha,auto", fallback="none", block=others) == ["alpha"]
        skipped: list[FallbackEvent] = []
        resolved = resolve(backend="alpha,auto", fallback="none", block=others)
        next(open_in_turn(resolved, on_skip=skipped.append))  # a warning would be an error
        assert [(one.code, one.backend) for one in skipped] == [("SGK320", "rude")]
        (package / "__init__.py").write_text(
            "from subgraphkit.backend import Backend\nclass Rude(Backend):\n    name = 'rude'\n"
            "    def properties(self): return []\n"
        )
        assert names(backend="auto", fallback="none", block=others) == ["alpha", "rude"]


def test_auto_takes_what_is_ready_by_priority_and_the_fallback_last(install):
    for name, priority in (("low", 1), ("high", 500), ("last", 900), ("broken_one", 600)):
        code = f"""
            from subgraphkit.backend import Backend
            class B(Backend):
                name = {name!r}
                def properties(self):
                    return []
        """
        install(
            f"d-{name}",
            f"m_{name}",
            "import no_such_module" if name == "broken_one" else code,
            f"[subgraphkit.backends]\n{name} = m_{name}:B\n",
            f'name = "{name}"\napi = "1.0"\npriority = {priority}\n',
        )
        if name != "broken_one":
            importlib.import_module(f"m_{name}")  # or it is tried in a child, which takes long
    with registered(NoDevice), pytest.warns(errors.SubgraphkitWarning, match="SGK103.*broken_one"):
        opened = names(backend="auto", fallback="last", block=sorted(KNOWN_BACKENDS))
    assert opened == ["high", "low", "last"]
    with pytest.warns(errors.SubgraphkitWarning, match="broken_one"):
        opened = names(backend="low,auto", fallback="none", block=sorted(KNOWN_BACKENDS))
    assert opened == ["low", "last", "high"]


class Own(SubgraphProperty):
    name = "own"

    def create_selector(self, graph):
        return OpSelector(graph, ["Relu"])


class Added(Own):
    name = "added"


class Owning(Backend):
    name = "alpha"

    def properties(self):
        return [Own()]


@pytest.fixture
def _added():
    register_property("alpha", Added)
    yield
    unregister_property("alpha", Added)


@pytest.mark.usefixtures("_added")
def test_an_added_property_comes_before_the_backends_own():
    assert [one.name for one in properties_of(Owning())] == ["added", "own"]


@pytest.mark.usefixtures("_added")
def test_a_property_added_twice_is_applied_once():
    register_property("alpha", Added)
    assert len(properties_of(Owning())) == 2


@pytest.mark.parametrize(("name", "added"), [("alpha", Owning), ("alpha", Own()), ("Bad", Own)])
def test_what_is_no_property_is_not_added(name, added):
    with pytest.raises(errors.BackendLoadError, match="SGK115"):
        register_property(name, added)


def test_a_property_that_was_not_added_cannot_be_removed():
    with pytest.raises(errors.BackendLoadError, match="was not registered"):
        unregister_property("alpha", Own)


@pytest.mark.parametrize("properties", [lambda _: 1 / 0, lambda _: [3], lambda _: None])
def test_a_backend_that_breaks_its_contract_is_named(properties):
    bad = type("Bad", (Owning,), {"properties": properties})()
    with pytest.raises(errors.SelectorContractError, match=r"SGK122.*backend 'alpha'"):
        properties_of(bad)


@pytest.mark.usefixtures("_added")
def test_a_class_that_is_defined_anew_takes_the_place_of_the_old():
    again = type("Added", (Added,), {"__module__": Added.__module__, "name": "anew"})
    register_property("alpha", again)
    assert [one.name for one in properties_of(Owning())] == ["anew", "own"]
    register_property("alpha", Added)


def test_it_serves_as_a_decorator_for_a_backend_that_does_not_exist_yet():
    @partial(register_property, "not_installed")
    class Early(Own):
        name = "early"

    late = type("Late", (Owning,), {"name": "not_installed"})()
    assert [one.name for one in properties_of(late)] == ["early", "own"]
    unregister_property("not_installed", Early)
    assert [one.name for one in properties_of(late)] == ["own"]
