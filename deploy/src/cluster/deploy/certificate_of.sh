# Prints the certificates in a file, without the key beside them; nothing if there is no such file. FILE: which.
[ ! -s "$FILE" ] || sed -n '/BEGIN CERT/,/END CERT/p' "$FILE"
