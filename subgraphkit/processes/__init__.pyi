from .calling import Child as Child
from .calling import NoAnswer as NoAnswer
from .calling import call as call
from .calling import result_of as result_of
from .child_process import how_it_ended as how_it_ended
