from .answers import Answers as Answers
from .answers import Passing as Passing
from .answers import is_machine_fault as is_machine_fault
from .files import locked as locked
from .kept_files import KeptFile as KeptFile
