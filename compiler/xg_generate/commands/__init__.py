"""Hold the commands of this package, one module each, as `xg.cli.commands` does."""
