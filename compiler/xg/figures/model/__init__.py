"""Figures as data: nodes, edges, text and geometry, before anything is placed."""
