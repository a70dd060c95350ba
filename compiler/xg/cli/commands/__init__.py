"""One module for each command; `command_list` names them."""
