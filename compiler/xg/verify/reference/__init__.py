"""The reference that every backend is compared with; it shares no code with them."""
