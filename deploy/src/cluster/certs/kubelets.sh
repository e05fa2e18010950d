# Prints the certificates that a kubelet got from the cluster, without their keys: of each, after a line `file NAME`.
# FOLDER: where it keeps them.
for name in kubelet-client kubelet-server; do
  file=$FOLDER/$name-current.pem
  [ -e "$file" ] || continue
  echo "file $name"
  sed -n '/BEGIN CERT/,/END CERT/p' "$file"
done
