from .cases import Case as Case
from .cases import Finding as Finding
from .cases import Outcome as Outcome
from .checking import check_backend as check_backend
from .onnx_adapter import onnx_backend as onnx_backend
from .report import Report as Report
from .subject import Subject as Subject
