#!/usr/bin/env bash
# What compute-sanitizer writes about a program of 60 launches of which the 30th has a race; FAKE=ends: it ends by a signal
# where the 30th is, FAKE=hangs: it goes on for ever there, FAKE=clean: there is no race.
skip=0 count=1000000
while [ $# -gt 1 ]; do
  case $1 in
    --launch-skip) skip=$2; shift ;;
    --launch-count) count=$2; shift ;;
  esac
  shift
done
echo "========= COMPUTE-SANITIZER"
echo "looks at $count from $skip on"
hazards=0
if [ "$skip" -le 30 ] && [ $((skip + count)) -gt 30 ] && [ "${FAKE:-}" != clean ]; then
  hazards=2
  echo "========= Error: Race reported between Write access at mla_attend_rows+0x2f60"
  echo "=========     and Read access at mla_attend_rows+0xda0 [128 hazards]"
  echo "=========     and Read access at mla_attend_rows+0xdc0 [12 hazards]"
  echo "========= "
  echo "========= Warning: Race reported between Write access at 0x20 in add.cu:7:add(int, \"x\")"
  echo "=========     and Write access at 0x40 in add.cu:7:add(int, \"x\") [1 hazard]"
  if [ "${FAKE:-}" = ends ]; then kill -KILL $$; fi
  if [ "${FAKE:-}" = hangs ]; then sleep 60; fi
fi
echo "========= RACECHECK SUMMARY: $hazards hazards displayed ($hazards errors, 0 warnings)"
[ $hazards -eq 0 ]
