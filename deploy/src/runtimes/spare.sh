# Nothing after this is done if the runtime (NAME) was the user's.
if is_users "$NAME"; then exit 0; fi
