# Notes the digests of programs (the arguments) before an upgrade, unless that was done already, and prints the note
# (NOTED). Without a complete note there is no rollback: a full disk ends the upgrade here.
umask 077
note "$NOTED" sha256sum /dev/null "$@"
cat "$NOTED"
