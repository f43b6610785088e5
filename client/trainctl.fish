# Completion of trainctl for fish; the program itself knows what may follow.
function __trainctl_candidates
    set -l words (commandline -opc)[2..-1] (commandline -ct)
    for candidate in (trainctl complete -- $words 2>/dev/null)
        if test "$candidate" = @files
            __fish_complete_path (commandline -ct)
        else
            printf '%s\n' $candidate
        end
    end
end
complete -c trainctl -f -a '(__trainctl_candidates)'
