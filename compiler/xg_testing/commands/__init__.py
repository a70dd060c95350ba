"""The commands of this package: the arguments of each."""
