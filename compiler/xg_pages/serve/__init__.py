"""`xg serve`: pages in the browser that follow the files, all in memory."""
