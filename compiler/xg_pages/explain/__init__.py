"""A diagram with numbers as a page to read: every step worked, forward and backward."""
