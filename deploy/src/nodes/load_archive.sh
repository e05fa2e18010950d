# Loads an image archive of the store (the argument).
intact "$1"
load_archive "$1"
