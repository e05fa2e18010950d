# What every script begins with. A login shell of a user often lacks the folders where root's programs are; a shell that is
# ended by a signal forgets what it was to do on exit, which is to remove its scratch files.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
export PATH LC_ALL
set -eu
trap 'exit 1' HUP INT PIPE TERM
