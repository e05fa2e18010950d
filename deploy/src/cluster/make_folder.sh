# Makes a folder that only root may read; those above it are for everyone. Argument: the folder.
# shellcheck disable=SC2174
mkdir -p -m 0700 "$1"
