"""Train a classifier of reviews, and ask it about others: `python -m examples.sentiment --help`.

The model is a diagram; xg compiles it, and the code here brings the words, the vectors of the words
and the labels. docs/sentiment.md explains it.
"""
