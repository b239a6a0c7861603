#compdef skald
# Completion of skald in zsh: the program itself knows its commands and flags. Source this from ~/.zshrc, or put it
# into a folder of $fpath as _skald.
autoload -U +X bashcompinit && bashcompinit
complete -o nospace -C skald skald
[ "${funcstack[1]}" != _skald ] || _bash_complete -o nospace -C skald
