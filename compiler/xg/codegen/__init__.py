"""One folder per target. A backend spells primitives; it does no shapes, gradients or sharding."""
