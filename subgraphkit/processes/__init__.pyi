from .answering_child import AnsweringChild as AnsweringChild
from .answering_child import NoAnswer as NoAnswer
from .child_process import Ended as Ended
from .child_process import how_it_ended as how_it_ended
from .child_process import run_child as run_child
from .child_process import stop_child as stop_child
