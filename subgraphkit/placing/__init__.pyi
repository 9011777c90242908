from . import background as background
from . import tuning_child as tuning_child
from .inference_session import InferenceSession as InferenceSession
from .inference_session import SessionSpec as SessionSpec
from .tuning import Tuning as Tuning
from .tuning import tune as tune
