#!/usr/bin/env bash
# A tool on a machine with a GPU, by its name: the player finds all well and writes its report, k3-run refuses in one line,
# k3-bench goes on for ever, k3-gpu-model is silent and fails.
case ${0##*/} in
  k3-gpu-player)
    for argument in "$@"; do
      case $argument in --json=*) echo '{"passed": 3}' >"${argument#--json=}" ;; esac
    done
    echo "3 passed" ;;
  k3-run)
    printf 'k3-run: device is cuda:63, but "there" is\tonly \\ cuda:0\n' >&2
    exit 1 ;;
  k3-bench) sleep 60 ;;
  *) exit 3 ;;
esac
