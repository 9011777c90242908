"""Takes the process down when it is imported."""

import os

os.abort()
