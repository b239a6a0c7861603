# Completion of skald in bash: the program itself knows its commands and flags.
complete -C skald skald
