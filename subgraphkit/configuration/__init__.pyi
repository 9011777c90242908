from .config import ResolvedConfig as ResolvedConfig
from .config import resolve as resolve
from .settings import Folders as Folders
