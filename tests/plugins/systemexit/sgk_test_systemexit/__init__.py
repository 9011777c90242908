"""Believes that it is a program."""

import sys

sys.exit("this is not a program")
