# sudo reads the password from the first line, or does not if it needs none: the script's own input begins after this line.
while IFS= read -r line; do [ "$line" != '--- begin ---' ] || break; done
