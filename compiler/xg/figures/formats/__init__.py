"""Display lists and figures as SVG, PDF, PNG and DOT."""
