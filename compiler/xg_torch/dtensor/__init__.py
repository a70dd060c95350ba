"""A plan as the calls of torch that divide a module of somebody's own: `parallelize_module` and
`fully_shard`. `torch_calls.source` writes them.
"""
