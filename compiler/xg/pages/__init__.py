"""Pages and folders that people look at: explorer, lesson, differences, outputs."""
