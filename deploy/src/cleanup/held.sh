# Ends here if the node is another's by now: what is there is no longer ours to remove. Prints `@held` and the claim.
# CLAIM: the file that has it. OWN_MARK: our own, if the journal knows it.
if [ -n "$OWN_MARK" ] && [ -s "$CLAIM" ]; then
  read -r held < "$CLAIM"
  if [ "$held" != "$OWN_MARK" ]; then echo @held; cat "$CLAIM"; exit 0; fi
fi
