"""The session: a plan that is ready to run."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from subgraphkit import bundling, planning, running
from subgraphkit.backend.progress import Progress
from subgraphkit.binding import BoundModel
from subgraphkit.compiling import close_all
from subgraphkit.configuration.config import ResolvedConfig
from subgraphkit.errors import ExecutionError, InputError
from subgraphkit.lazy import cached_property
from subgraphkit.partitioning import Partitioning
from subgraphkit.planning import Plan, PlanSource, Step
from subgraphkit.running.answering import Answering
from subgraphkit.running.binding_io import IOBinding
from subgraphkit.running.emission import pick_results
from subgraphkit.running.failures import fails_again, made_elsewhere, movable
from subgraphkit.running.feeds import model_in_words, places_of
from subgraphkit.running.gate import Gate, follow, goes_on, run_forked
from subgraphkit.running.messages import (
    OPEN_A_FILE,
    explain_attribute,
    no_spec,
    other_model,
    run_closed,
)
from subgraphkit.running.observing import Observer, RunTally
from subgraphkit.running.stopping import RunOptions, Stoppable, Variants
from subgraphkit.running.weights import Weights


class Session(Answering):
    """Runs a plan, again and again, from any number of threads.

    Arrays that ``run`` returns belong to the caller. Arrays that are fed are never written to.

    Args:
        plan: A plan, or a source that ``subgraphkit.plan`` takes, such as a partitioning. Sessions
            of one plan share its operators. So closing one, or giving it new weights, closes or
            changes those of all.

    Thread-safety: every method may be called from any thread. Operators that are not thread-safe
    run one at a time; ``update_weights`` and ``close`` wait for the runs that are under way.
    """

    def __init__(self, plan: "Plan | PlanSource") -> None:
        plan = plan if isinstance(plan, Plan) else planning.plan(plan)
        self._plan = plan
        self._gate = Gate()
        self._closed = False
        self._weights = Weights(plan.graph)
        self._observer = Observer(plan.graph.extensions)
        self._output_places = {name: i for i, name in enumerate(plan.graph.outputs)}
        self._stoppable = Stoppable()
        self._variants: Variants
        self._execute: Callable[..., list[Any]]
        self._take(plan)
        follow(self, self._gate)

    @cached_property
    def _inside(self) -> "running.InnerValues":
        return running.InnerValues(self.graph)

    @property
    def number(self) -> int:
        """The number by which events name this session in this process."""
        return self._observer.session

    @property
    def plan(self) -> Plan:
        """The plan being run."""
        return self._plan

    @property
    def graph(self) -> BoundModel:
        """The bound model."""
        return self._plan.graph

    @property
    def partitioning(self) -> Partitioning:
        """Which nodes run where, and why."""
        return self._plan.partitioning

    @property
    def resolved_config(self) -> ResolvedConfig:
        """Every setting with its value and where it came from."""
        unheeding = self._plan.partitioning.unheeding
        return replace(self._plan.graph.settings, unheeding=unheeding)

    @property
    def weight_versions(self) -> Mapping[str, int]:
        """How often each weight was replaced; weights never replaced are left out."""
        return MappingProxyType(self._weights.versions)

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
        *,
        timeout_s: float | None = None,
    ) -> list[Any]:
        """Compute outputs; ONNX Runtime's signature.

        Args:
            output_names: Names of the outputs wanted, in that order; None or empty for all. For
                values inside of the model another session is opened, on first use.
            input_feed: Arrays by input name.
            run_options: How long the run may take, and the means to end it from another thread.
            timeout_s: Seconds that it may take, even if ``run_options`` differs. The setting of
                that name is about compiling, and holds for no run.

        Returns:
            One array per output wanted; sequences are lists, absent optionals None.

        Raises:
            InputError: The feeds do not fit the model (SGK140 to SGK142, SGK145), an output does
                not exist (SGK143).
            CallerError: The session is closed (SGK144), or a parent's in a forked child (SGK127).
            ExecutionError: A subgraph failed (SGK131) or returned something wrong (SGK132).
            RunTimeoutError: It took longer than it may (SGK138); or it was cancelled (SGK139).
        """
        results: list[Any] | ExecutionError
        try:
            places = places_of(output_names, self._output_places) if output_names else None
        except InputError:
            inner = self._inside.session(output_names or ())
            if inner is None or self._weights.versions or self._closed:
                raise
            return inner.run(output_names, input_feed, run_options, timeout_s=timeout_s)
        if run_options is not None or timeout_s is not None:
            with self._stoppable.under_way(run_options, timeout_s) as progress:
                results = self._run_variant(progress, input_feed)
        else:
            results = self._gate.through(self._run_plain, input_feed)
            if isinstance(results, ExecutionError):
                self._move_to_fallback(results, input_feed)
                return self.run(output_names, input_feed)
        return results if places is None else pick_results(results, places)

    def _run_plain(self, feeds: Any) -> list[Any] | ExecutionError:
        try:
            return self._execute(feeds)
        except BaseException as error:  # noqa: BLE001 (raised again unless it moves)
            with self._observer.failing():
                return movable(error, self._variants.plain, self._plan, feeds)

    def io_binding(self) -> IOBinding:
        """Return an empty binding of inputs and output buffers for this session."""
        return IOBinding(self.graph, {step.operator.device for step in self._plan.steps})

    def run_with_iobinding(
        self,
        binding: IOBinding,
        run_options: RunOptions | None = None,
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Run with the inputs and into the outputs of a binding; ended early, they mean nothing.

        Args:
            binding: The binding.
            run_options: As for ``run``.
            timeout_s: As for ``run``.

        Raises:
            SubgraphkitError: As for ``run``; or a buffer does not fit (SGK140, SGK141).
        """
        buffers, feeds = binding.buffers(), binding.feeds()
        if run_options is None and timeout_s is None:
            return binding.accept(self._run_variant(None, feeds, buffers))
        with self._stoppable.under_way(run_options, timeout_s) as progress:
            return binding.accept(self._run_variant(progress, feeds, buffers))

    def _run_variant(self, progress: Progress | None, feeds: Any, *buffers: Any) -> list[Any]:
        run = partial(self._run_other, progress, buffers)
        while isinstance(results := self._gate.through(run, feeds, progress), Exception):
            self._move_to_fallback(results, feeds)
        return results

    def _run_other(
        self, progress: Progress | None, buffers: Sequence[Any], feeds: Any
    ) -> list[Any] | ExecutionError:
        self._check_open()
        emitted = self._variants.other(buffered=bool(buffers), stoppable=bool(progress))
        try:
            results = emitted.execute(feeds, *buffers)
            if progress is not None:
                progress.check()
        except BaseException as error:  # noqa: BLE001 (raised again unless it moves)
            with self._observer.failing():
                return movable(error, emitted, self._plan, feeds, progress)
        else:
            return results

    def profile(
        self, runs: int | Mapping[str, Any] = 20, *, inside: bool = True
    ) -> "running.Profile":
        """Return a profile of the runs inside of its ``with`` block; ``Profile.run`` makes some.

        Args:
            runs: How many runs to measure; those after that are not. If arrays by input name are
                given, 20 runs on these are measured at once, and no block is needed.
            inside: Whether to ask operators for times of their parts, for which some backends
                compile anew. The operators of the session stay as they are.
        """
        if isinstance(runs, Mapping):
            with self.profile(inside=inside) as measured:
                measured.run(runs)
            return measured
        return running.Profile(self._plan, self._listen, self.run, runs, inside=inside)

    def update_weights(self, changed: Mapping[str, Any]) -> Mapping[str, str]:
        """Replace weights; only the subgraphs that use them are refitted or compiled again.

        Runs under way finish with the old weights; later ones see all the new ones. If a subgraph
        fails to take them, or Ctrl-C is pressed, the old weights are put back.

        Args:
            changed: New values by initializer name, of the same dtype and shape. They are copied.

        Returns:
            For every subgraph that uses a changed weight, ``"refitted"`` or ``"recompiled"``.

        Raises:
            WeightUpdateError: A name, dtype or shape does not fit, or a subgraph cannot take the
                new weights (SGK133). Or its backend would not take a node with them (SGK133).
        """

        def update() -> Mapping[str, str]:
            self._check_open()
            before = self._plan
            outcome = self._weights.update(before, changed, self._take)
            self._close_unless_used(before)
            return outcome

        return self._gate.alone(update)

    def exchange(self, plan: Plan | Callable[[Plan], Plan]) -> None:
        """Run another plan of the same bound model from now on.

        Runs under way finish with the old plan. Later ones see the new one with the weights of
        today: operators with older ones are refitted or compiled again. Operators that only the old
        plan has are closed; if the new one cannot run, its own are.

        Args:
            plan: Made of a partitioning of ``session.graph``. Or a function that makes it of the
                present plan, called while nothing runs.

        Raises:
            CallerError: The plan is of another bound model (SGK123), and stays the caller's; or the
                session is closed (SGK144).
            WeightUpdateError: The plan cannot take weights that were replaced (SGK133).
        """
        given: list[Plan] = []

        def take() -> None:
            latest = plan if isinstance(plan, Plan) else plan(self._plan)
            if latest.graph is not self.graph:
                raise other_model()
            given.append(latest)
            self._check_open()
            given.extend([self._plan, self._weights.hand_to(latest)])
            self._take(given[-1])

        try:
            self._gate.alone(take)
        finally:
            self._gate.alone(lambda: self._close_unless_used(*given))

    def export(
        self, directory: str | os.PathLike[str], *, overwrite: bool = False, shared: bool = False
    ) -> None:
        """Write all that is needed to run this session elsewhere, with the weights of today.

        ``InferenceSession(directory)`` opens it as it was compiled.

        Args:
            directory: The folder to write, a bundle; must not exist, or be empty.
            overwrite: Whether a bundle that is there is replaced; anything else never is.
            shared: Whether other users may read it, weights and all; otherwise this user alone.

        Raises:
            BundleError: The folder cannot be written (SGK180).
            CompileError: A backend cannot store an engine (SGK187).
            InvalidModelError: A weight cannot be read (SGK184, SGK208, SGK211).
            CallerError: The session is closed (SGK144).
        """

        def taken_out() -> "bundling.BundleContents":
            self._check_open()
            return bundling.collect(self._plan, self._weights.current)

        bundling.check_target(Path(directory), overwrite=overwrite)
        contents = self._gate.alone(taken_out)
        bundling.write_bundle(contents, Path(directory), overwrite=overwrite, shared=shared)

    def close(self) -> None:
        """Release what the operators hold. May be called more than once."""
        self._gate.alone(self._release)
        self._pool().shutdown(wait=False)  # one that is made later would not be ended

    def _release(self) -> None:
        if self._closed:
            return
        self._closed, self._execute = True, run_closed
        close_all(step.operator for step in self._plan.steps)
        if "_inside" in vars(self):
            self._inside.close()

    def leave_parent(self) -> None:
        """Go on in a forked child if all operators can, or refuse to; called there."""
        self._gate = follow(self, Gate())  # a thread that is not here may have been inside
        self._forget_threads()
        if not self._closed and not goes_on(self._plan):
            self._closed, self._execute = True, run_forked

    def __reduce__(self) -> Any:
        """Refuse to be pickled or copied: the sources of the plan are not known (SGK192)."""
        raise no_spec("it was made of a plan", OPEN_A_FILE)

    def _repr_html_(self) -> str:
        return self.partitioning._repr_html_()

    def __repr__(self) -> str:
        """Render in three lines: the model and its backends, inputs, outputs."""
        state = "closed" if self._closed else ""
        return model_in_words(type(self).__name__, self.graph, self.partitioning.summary, state)

    def _listen(self, recorder: "running.Recorder | None") -> Plan:
        def listen() -> Plan:
            if recorder is not None:
                self._check_open()
            self._observer.hear(recorder)
            if not self._closed:
                self._renew(self._plan)
            return self._plan

        return self._gate.alone(listen)

    def _begin_tally(self) -> None:
        self._observer.tally = self._observer.tally or RunTally()
        if not self._closed:
            self._renew(self._plan)

    def _take(self, plan: Plan) -> None:
        self._observer.forget()
        self._renew(plan)

    def _renew(self, plan: Plan) -> None:
        variants = Variants(plan, self._weights, self._observer, self._stoppable)
        self._plan, self._variants = plan, variants
        self._execute = variants.plain.execute

    def _close_unless_used(self, *plans: Plan) -> None:
        used = set() if self._closed else {step.operator for step in self._plan.steps}
        held = (step.operator for plan in plans for step in plan.steps)
        close_all(operator for operator in held if operator not in used)

    def _check_open(self) -> None:
        if self._closed:
            self._execute({})

    def _move_to_fallback(self, failure: ExecutionError, feeds: Mapping[str, Any]) -> None:
        with self._observer.failing():
            step = self._gate.alone(partial(self._exchange, failure, feeds))
        if step is not None:
            self._observer.tell_moved(failure, step, self.graph.settings.fallback)

    def _exchange(self, failure: ExecutionError, feeds: Mapping[str, Any]) -> Step | None:
        if self._closed:
            raise failure
        failed = failure.context["operator"]
        places = [at for at, one in enumerate(self._plan.steps) if one.operator is failed]
        if not places:  # another thread was here first
            return None
        index, before = places[0], self._plan
        after = made_elsewhere(before, index, failure)
        self._take(after)  # for good, unless that fails as well; the old plan is still open
        if fails_again(self._variants.plain, index, failure, feeds):
            self._take(before)
            self._close_unless_used(after)
            raise failure
        self._close_unless_used(before)
        return before.steps[index]


# Set here, and not defined in the class: a type checker that saw it would accept any misspelt name.
setattr(Session, "__getattr__", explain_attribute)  # noqa: B010 (see above)
