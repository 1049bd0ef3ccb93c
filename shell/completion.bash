# Completion of tycho for bash.
_tycho() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} i
  # Behind a script its own arguments follow: files.
  for ((i = 1; i < COMP_CWORD; ++i)); do
    if [[ ${COMP_WORDS[i]} == *.lua ]]; then
      COMPREPLY=($(compgen -f -- "$word"))
      compopt -o filenames
      return
    fi
  done
  if [[ ${COMP_WORDS[1]} == learn && COMP_CWORD -ge 2 ]]; then
    case $before in
      --class) COMPREPLY=($(compgen -d -- "$word")) && return ;;
      --report) COMPREPLY=($(compgen -f -- "$word")) && return ;;
    esac
    COMPREPLY=($(compgen -W "--class --report --sheet --notebook $("${COMP_WORDS[0]}" learn all </dev/null 2>/dev/null | sed -n 's/^ *[0-9][0-9]*  *\([^ ]*\) .*/\1/p')" -- "$word"))
    return
  fi
  if [[ ${COMP_WORDS[1]} == kernel ]]; then
    case $before in
      -f) COMPREPLY=($(compgen -f -- "$word")) ;;
      --prefix) COMPREPLY=($(compgen -d -- "$word")) ;;
      *) COMPREPLY=($(compgen -W "--install --user --prefix --name -f --help" -- "$word")) ;;
    esac
    return
  fi
  if [[ ${COMP_WORDS[1]} == run ]]; then
    case $before in
      -n | --nproc-per-node) COMPREPLY=($(compgen -W "auto cpu gpu" -- "$word")) ;;
      --token-file) COMPREPLY=($(compgen -f -- "$word")) ;;
      --nnodes | --node-rank | --master | --master-addr | --master-port | --max-restarts | -e) ;;
      *)
        if [[ $word == -* ]]; then
          COMPREPLY=($(compgen -W "-n --nproc-per-node --nnodes --node-rank --master --master-addr --master-port --token-file --max-restarts -e --help" -- "$word"))
        else
          COMPREPLY=($(compgen -f -X '!*.lua' -- "$word") $(compgen -d -- "$word"))
          compopt -o filenames
        fi ;;
    esac
    return
  fi
  case $before in
    -e) return ;;
    --lua-annotations | --docs)
      COMPREPLY=($(compgen -d -- "$word"))
      compopt -o filenames
      return ;;
    --check)
      COMPREPLY=($(compgen -d -- "$word") $(compgen -f -X '!*.lua' -- "$word"))
      compopt -o filenames
      return ;;
  esac
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "-e -i --clean --check --lua-annotations --docs --version --help" -- "$word"))
  else
    COMPREPLY=($(compgen -f -X '!*.lua' -- "$word") $(compgen -d -- "$word"))
    ((COMP_CWORD == 1)) && COMPREPLY+=($(compgen -W "doctor learn run kernel" -- "$word"))
    compopt -o filenames
  fi
}
complete -F _tycho tycho
