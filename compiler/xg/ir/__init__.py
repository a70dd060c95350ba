"""The data of the compiler: sizes, primitives, operators, graphs, placements."""
