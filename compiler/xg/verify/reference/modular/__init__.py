"""Programs over the integers modulo a prime: two that do the same algebra agree exactly."""
