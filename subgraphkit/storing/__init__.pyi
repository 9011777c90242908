from .files import locked as locked
from .kept_files import Answers as Answers
from .kept_files import KeptFile as KeptFile
from .kept_files import Passing as Passing
from .kept_files import is_machine_fault as is_machine_fault
