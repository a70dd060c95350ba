"""The type system of sharding: what a body computes when its operands lie on several ranks."""
