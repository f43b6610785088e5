#compdef trainctl
# Completion of trainctl for zsh; the program itself knows what may follow.
local -a candidates
candidates=("${(@f)$(_call_program candidates ${words[1]} complete -- ${(q)words[2,CURRENT]} 2>/dev/null)}")
if (( ${candidates[(Ie)@files]} )); then
    _files
fi
candidates=("${(@)candidates:#@files}")
candidates=("${(@)candidates:#}")
(( ${#candidates} )) || return 0
if [[ ${candidates[1]} == *= ]]; then
    compadd -S '' -- "${candidates[@]}"
else
    compadd -- "${candidates[@]}"
fi
