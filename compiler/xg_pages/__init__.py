"""Pages that people read: explorer, explanations, differences, notebooks, Sphinx."""
