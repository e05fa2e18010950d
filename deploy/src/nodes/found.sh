# Prints size, mode, owner and path of those files (the arguments) that are there.
stat -c '%s %a %U:%G %n' -- "$@" 2>/dev/null || :
