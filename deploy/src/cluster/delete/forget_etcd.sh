# Removes the data of an etcd member that has left. DATA: where it is.
rm -rf "${DATA:?}"
