"""Placing figures: the problem for the layout engine, and routes between placed boxes."""
