"""Pages: a page as data in, one self-contained HTML document out."""
