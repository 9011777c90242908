"""What can be said of a node by looking at it: the operator table, and what its rules mean."""
