# Ends the containers of a runtime (NAME). SHIM: what the process is called that holds one; NAMESPACE: among whose
# arguments ours have this, if any; PODS: the same for the pods, if they are to end before the runtime starts again.
#
# In a runtime of the user's only the pods end, and nothing after this is done. Only the runtime itself can remove
# them, so it starts: with the user's settings, which are back by now.
if is_users "$NAME"; then
  [ -z "$PODS" ] || end_containers "$SHIM" "$PODS"
  systemctl daemon-reload
  if systemctl restart "$NAME" 2>/dev/null; then remove_pods; fi
  exit 0
fi
end_containers "$SHIM" "$NAMESPACE"
