"""Type sharding: infer the placement of a body's results from its operands."""
