# Takes an archive on standard input: the lists of an image layout and, as links into the store, its blobs. They are read
# as one archive by the runtime. ROOT: the installer's folder.
umask 077
work=$(mktemp -d "$ROOT/images.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/files"
tar -x -C "$work/files" -f -
cd "$work" || exit
# shellcheck disable=SC2046 # The links are named by their digests.
intact $(find files -type l)
(tar -c -h -C files -f - . || : > failed) | load_images
if [ -e failed ]; then echo 'not all blobs are in the store' >&2; exit 1; fi
