# Prints a file (FILE). Exit status 44: there is none.
[ -e "$FILE" ] || exit 44
cat < "$FILE"
