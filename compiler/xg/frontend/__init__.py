"""From files to typed programs: projects, plans by name, options, examples."""
