"""The layout engines: each answers a placement problem with Graphviz's JSON, or says why not."""
