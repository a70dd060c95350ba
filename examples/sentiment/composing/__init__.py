"""The reviews of this example, composed of phrases written by hand."""
