# Completion of skald in zsh: the program itself knows its commands and flags. Source this from ~/.zshrc.
autoload -U +X bashcompinit && bashcompinit
complete -o nospace -C skald skald
