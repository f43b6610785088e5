# Completion of trainctl for bash; the program itself knows what may follow.
_trainctl()
{
    local words=() word candidate before=

    # bash cuts words at the colon that names of devices have, and takes candidates for what follows it
    for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        if [ ${#words[@]} -gt 0 ] && [[ $word == : || ${words[-1]} == *: ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
    done
    word=${words[-1]}
    [[ $COMP_WORDBREAKS != *:* ]] || before=${word%"${word##*:}"}
    COMPREPLY=()
    while IFS= read -r candidate; do
        if [ "$candidate" = @files ]; then
            compopt -o default
        elif [[ $candidate != *[^A-Za-z0-9._:+@%,=/-]* ]]; then # bash inserts it as it is: nothing that it would run
            COMPREPLY+=("${candidate#"$before"}")
        fi
    done < <("${COMP_WORDS[0]}" complete -- "${words[@]}" 2>/dev/null)
    case ${COMPREPLY[0]-} in *=) compopt -o nospace ;; esac
    [ -n "$word" ] || [ ${#COMPREPLY[@]} -gt 0 ] || compopt -o default
}
complete -F _trainctl trainctl
