"""The type system of sharding: the placement of a body's results given that of its operands."""
