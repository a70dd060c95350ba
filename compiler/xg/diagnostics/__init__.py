"""The user's text: where it is, what is wrong with it, how it is shown safely."""
