# Removes files (the arguments), and prints those that it removed.
for file; do if [ -e "$file" ]; then rm -f "$file"; echo "$file"; fi; done
