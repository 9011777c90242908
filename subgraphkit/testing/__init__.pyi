from .cases import Case as Case
from .cases import Finding as Finding
from .cases import Outcome as Outcome
from .checking import check_backend as check_backend
from .report import Report as Report
from .subject import Subject as Subject
from .trial import Trial as Trial
from .trial import try_backend as try_backend
