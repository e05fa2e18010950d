# Prints the list inside an image archive (the argument), and after a line `@@` the images of the runtime.
tar -xO -f "$1" manifest.json 2>/dev/null || :
echo
echo @@
list_images
