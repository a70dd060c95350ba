"""Train a classifier of reviews, and ask it about others: `python -m examples.sentiment --help`.

The model is a diagram; xg compiles it, and the code here brings the words, the vectors of the words
and the labels. docs/how-to/classify-text.md explains it.

It only uses the public interface, which shows that this is enough. Word vectors are data and not
parameters, as in the source text; square roots of counts are taken first, because a few frequent
words are most neighbors otherwise. Reviews were written for this project, because published ones
have owners.
"""
