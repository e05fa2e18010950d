# Runs the script in FILE. The file goes first: nothing is left of it, whatever the script does.
staged=$(cat "$FILE")
rm -f "$FILE"
eval "$staged"
