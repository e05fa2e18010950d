# Links the programs of some folders (the arguments) into another (INTO), as far as that does not have its own.
mkdir -p "$INTO"
for folder; do
  for program in "$folder"/*; do
    if [ -f "$program" ] && [ ! -e "$INTO/${program##*/}" ]; then ln -sf "$program" "$INTO/"; fi
  done
done
