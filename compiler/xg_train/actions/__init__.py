"""The commands of this package: the module that runs each."""
