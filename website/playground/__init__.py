"""The playground: the compiler in the browser, with a page to write programs in."""
