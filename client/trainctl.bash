# Completion of trainctl for bash; the program itself knows what may follow.
_trainctl()
{
    local words=("${COMP_WORDS[@]:1:COMP_CWORD}") candidate
    local word=${words[-1]}

    COMPREPLY=()
    while IFS= read -r candidate; do
        if [ "$candidate" = @files ]; then
            compopt -o default
        else
            COMPREPLY+=("$candidate")
        fi
    done < <("${COMP_WORDS[0]}" complete -- "${words[@]}" 2>/dev/null)
    case ${COMPREPLY[0]-} in *=) compopt -o nospace ;; esac
    [ -n "$word" ] || [ ${#COMPREPLY[@]} -gt 0 ] || compopt -o default
}
complete -F _trainctl trainctl
