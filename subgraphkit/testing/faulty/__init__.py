"""Backends that are wrong, each in one way, and where the conformance kit must say so.

The kit is of use only if it catches them; a test of the kit goes through the table.
"""

from dataclasses import dataclass
from typing import Final

from subgraphkit.backend import Backend
from subgraphkit.testing.cases import Outcome
from subgraphkit.testing.faulty import choosing, computing, keeping
from subgraphkit.testing.faulty.corruptions import CORRUPTIONS, corrupted
from subgraphkit.testing.faulty.keeping import Stores
from subgraphkit.testing.faulty.wrapping import WrappingBackend

__all__ = ["FAULTS", "SOUND", "Fault"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A faulty backend and what the kit is to find.

    Attributes:
        backend: The backend.
        case: The case that must find it.
        outcome: How that case must end.
    """

    backend: type[Backend]
    case: str
    outcome: Outcome


FAULTS: Final = (
    Fault(choosing.RaisesInProbe, "L0/probe", Outcome.FAIL_PROBE),
    Fault(choosing.CannotRunHere, "L0/probe", Outcome.FAIL_PROBE),
    Fault(choosing.AbortsInProbe, "L0/import", Outcome.CRASH),
    Fault(choosing.OptionUnexplained, "L1/options", Outcome.FAIL_CONTRACT),
    Fault(keeping.StartsThreads, "L1/keeps_to_one_thread", Outcome.FAIL_CONTRACT),
    Fault(keeping.SpinsBesideOthers, "L1/keeps_to_one_thread", Outcome.FAIL_CONTRACT),
    Fault(choosing.SharesProperty, "L1/properties", Outcome.FAIL_CONTRACT),
    Fault(choosing.AnswersWithText, "L1/answers", Outcome.FAIL_SELECT),
    Fault(choosing.AnswersByTurns, "L1/answers", Outcome.FAIL_SELECT),
    Fault(choosing.StatelessByName, "L1/stateless", Outcome.FAIL_SELECT),
    Fault(keeping.LeavesNumPyStrict, "L1/leaves_the_process_alone", Outcome.FAIL_CONTRACT),
    Fault(keeping.WritesToStandardOutput, "L1/leaves_the_process_alone", Outcome.FAIL_CONTRACT),
    Fault(keeping.ChangesTheLocale, "L1/leaves_the_process_alone", Outcome.FAIL_CONTRACT),
    Fault(keeping.AbortsAtExit, "L1/leaves_the_process_alone", Outcome.CRASH),
    Fault(computing.CachesFirstResult, "L1/operator/repeated_runs", Outcome.FAIL_VALUE),
    Fault(computing.ComputesInPlace, "L1/operator/inputs_left_alone", Outcome.FAIL_ALIAS),
    Fault(computing.IgnoresStrides, "L1/operator/strided_inputs", Outcome.FAIL_VALUE),
    Fault(computing.ReturnsOwnBuffer, "L1/operator/results_are_given_away", Outcome.FAIL_ALIAS),
    Fault(computing.WeightsOnlyInWord, "L1/operator/new_weights", Outcome.FAIL_VALUE),
    Fault(computing.ForgetsWeights, "L1/operator/new_weights", Outcome.FAIL_VALUE),
    Fault(keeping.InformationUnwritable, "L1/operator/information", Outcome.FAIL_CONTRACT),
    Fault(keeping.NamesForeignNodes, "L1/operator/times_inside", Outcome.FAIL_CONTRACT),
    Fault(keeping.BreaksOthersOnClose, "L1/operator/closing_twice", Outcome.FAIL_RUN),
    Fault(choosing.RaisesInSelect, "L2/one_node", Outcome.FAIL_SELECT),
    Fault(choosing.TakesByTurns, "L2/one_node", Outcome.FAIL_SELECT),
    Fault(choosing.FiltersIn, "L2/two_roots", Outcome.FAIL_SELECT),
    Fault(choosing.RaisesInCompile, "L2/one_node", Outcome.FAIL_COMPILE),
    Fault(choosing.CompilesToNothing, "L2/one_node", Outcome.FAIL_COMPILE),
    Fault(choosing.DeclaresWhatPasses, "L2/chain", Outcome.FAIL_CONTRACT),
    Fault(choosing.ClaimsNothing, "L2/chain", Outcome.UNCLAIMED),
    Fault(computing.RaisesInRun, "L2/one_node", Outcome.FAIL_RUN),
    Fault(computing.ExitsInRun, "L2/one_node", Outcome.FAIL_CONTRACT),
    Fault(computing.AbortsInRun, "L2/one_node", Outcome.CRASH),
    Fault(computing.SleepsInRun, "L2/one_node", Outcome.HANG),
    Fault(computing.WrongDtype, "L2/one_node", Outcome.FAIL_DTYPE),
    Fault(computing.WrongShape, "L2/one_node", Outcome.FAIL_SHAPE),
    Fault(computing.WrongValue, "L2/one_node", Outcome.FAIL_VALUE),
    Fault(computing.OutputsReversed, "L2/inner_value_is_an_output", Outcome.FAIL_VALUE),
    Fault(computing.OutputsTooFew, "L2/one_node", Outcome.FAIL_RUN),
    Fault(computing.ReturnsInput, "L2/one_node", Outcome.FAIL_ALIAS),
    Fault(computing.WritesInputs, "L2/one_node", Outcome.FAIL_ALIAS),
    Fault(computing.ComputesThroughDouble, "L5/operators/arithmetic", Outcome.FAIL_VALUE),
    Fault(keeping.ErrorsStay, "L5/errors/travel", Outcome.FAIL_CONTRACT),
    Fault(keeping.ForgetsForks, "L5/processes/forked", Outcome.FAIL_RUN),
    Fault(keeping.OpensOnce, "L5/processes/spec", Outcome.FAIL_CONTRACT),
    Fault(keeping.CannotRestore, "L6/restored_here", Outcome.FAIL_CONTRACT),
    Fault(keeping.StoresAddresses, "L6/restored_by_another_process", Outcome.FAIL_CONTRACT),
    Fault(keeping.TrustsWhatIsStored, "L6/damaged/middle_changed", Outcome.FAIL_VALUE),
    Fault(keeping.FingerprintOfProcess, "L6/fingerprint_in_another_process", Outcome.FAIL_CONTRACT),
    Fault(keeping.LeaksRuns, "L7/many_runs", Outcome.FAIL_CONTRACT),
    Fault(keeping.OpensFiles, "L7/many_runs", Outcome.FAIL_CONTRACT),
    Fault(keeping.LeaksSessions, "L7/many_sessions", Outcome.FAIL_CONTRACT),
    Fault(computing.NotReallyThreadSafe, "L7/threads_in_one_session", Outcome.FAIL_VALUE),
    Fault(computing.SwallowsInterrupts, "L7/interrupted", Outcome.FAIL_CONTRACT),
    *(Fault(corrupted(name), one.case, one.outcome) for name, one in CORRUPTIONS.items()),
)
"""Every faulty backend; those of one level together, and then those that corrupt results."""

SOUND: Final[tuple[type[Backend], ...]] = (WrappingBackend, Stores)
"""What they are made of, in which the kit must find nothing wrong."""
