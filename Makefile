# Every target is a word of ./dev, which works without make as well.

.PHONY: help setup demo check test golden docs site fuzz mutants verify-all bench
help setup demo check test golden docs site fuzz mutants verify-all bench:
	@./dev $@
