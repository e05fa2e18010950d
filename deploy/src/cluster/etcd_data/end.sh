# The restore is through. DATA: the member's data.
rm -rf "${DATA:?}.restoring"
