# Whether the user is root (prints `root`), or may become root: without a password (`free`), with one (`password`), or not
# at all (`none`).
if [ "$(id -u)" = 0 ]; then echo root
elif ! command -v sudo >/dev/null; then echo none
elif sudo -n true 2>/dev/null; then echo free
else echo password; fi
