"""Static rules: the operator table, and what it means for a node that is looked at."""
