# Completion of skald in fish: the program itself knows its commands and flags.
function __complete_skald
    set -lx COMP_LINE (commandline -cp)
    test -z (commandline -ct)
    and set COMP_LINE "$COMP_LINE "
    skald
end
complete -f -c skald -a "(__complete_skald)"
