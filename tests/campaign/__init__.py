"""Attacks on this software, drawn from seeds and carried out in children that may die of them.

``python -m tests.campaign --attack mutants --backend numpy --seed 1 --count 1000`` runs one of
them; ``make campaign`` runs some minutes of each, and writes down what came out.
"""
