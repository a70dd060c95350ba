"""A plan as the calls of torch that divide a module of somebody's own: `parallelize_module` and
`fully_shard`. `torch_calls.source` writes them.

The placed program is read, not the lines of the plan: it has every layout that torch wants, and is
proven. Everything else is refused, so that no call silently computes something else.
"""
