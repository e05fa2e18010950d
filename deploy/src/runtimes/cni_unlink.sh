# Removes the links in a folder (INTO) that lead into some others (the arguments).
for link in "${INTO:?}"/*; do
  target=$(readlink "$link") || continue
  for folder; do case $target in "$folder"/*) rm -f "$link" ;; esac; done
done
