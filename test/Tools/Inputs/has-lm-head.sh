#!/bin/sh
# Interesting (1) while the file is valid and holds the op that a fault would be in.
k3-opt "$1" -o /dev/null 2>/dev/null || exit 0
grep -q 'k3.lm_head' "$1" && exit 1
exit 0
