# Calls a function of the files before, or a program. Arguments: its name, and its own.
"$@"
