"""The site: the documents, and a page for each diagram, as HTML that needs no network."""
