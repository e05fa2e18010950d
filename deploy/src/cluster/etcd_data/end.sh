# The restore is through. DATA: the member's data.
rm -f "${DATA:?}.restoring"
