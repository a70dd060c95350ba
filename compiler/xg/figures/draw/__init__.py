"""From placed figures to display lists: shapes, arrows, text."""
