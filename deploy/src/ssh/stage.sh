# Puts standard input into a file of the user's, and prints where it is.
set -eu
umask 077
file=$(mktemp)
cat > "$file" || { rm -f "$file"; exit 1; }
echo "$file"
