#!/usr/bin/env bash
# compute-sanitizer's racecheck over all launches of a program.
#   scripts/gpu/racecheck.sh SANITIZER REPORT.json PARTS COMMAND...
# The tool keeps about 0.8 GB per launch in the host's memory: COMMAND is run PARTS times, 25 launches are looked at in each
# run and all that are left in the last; four runs go side by side. REPORT.json names the kernels with hazards:
#   {"parts": 2, "unfinished": 0, "reports": 1, "kernels": {"mla_attend_rows": {"reports": 1, "hazards": 128}}}
# Exit code 0: all runs ended well and nothing was reported.
set -uo pipefail
sanitizer=${1:?"usage: racecheck.sh SANITIZER REPORT.json PARTS COMMAND..."} report=$2 parts=$3
shift 3
launches=25 together=4 status=0
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# The lines are
#   Error: Race reported between Write access at KERNEL+0x10 [in FILE:LINE]
#       and Read access at KERNEL+0x20 [in FILE:LINE] [128 hazards]
# and at the end of each run
#   RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)
summarize() {
  cat "$logs"/*.log
  cat "$logs"/*.log | awk -v parts="$parts" '
    /Race reported between/ {
      kernel = $0
      sub(/.* access at /, "", kernel)
      if (kernel ~ /^0x/) sub(/^0x[0-9a-f]+ in /, "", kernel)
      sub(/\+0x.*/, "", kernel)
      gsub(/[\\"]/, "", kernel)
      ++reported[kernel]
    }
    match($0, /\[[0-9]+ hazards?\]/) { hazards[kernel] += substr($0, RSTART + 1) }
    /RACECHECK SUMMARY:/ { ++finished; sub(/.*SUMMARY: /, ""); total += $1 }
    END {
      printf "{\"parts\": %d, \"unfinished\": %d, \"reports\": %d, \"kernels\": {", parts, parts - finished, total
      for (kernel in reported)
        printf "%s\"%s\": {\"reports\": %d, \"hazards\": %d}", (n++ ? ", " : ""), kernel, reported[kernel], hazards[kernel]
      print "}}"
      exit (total > 0 || finished < parts)
    }' >"$report"
}
# Whoever stops this wants to know what was found until then.
trap 'summarize; exit 124' TERM

for ((first = 0; first < parts; first += together)); do
  runs=()
  for ((part = first; part < parts && part < first + together; ++part)); do
    "$sanitizer" --tool racecheck --error-exitcode 1 --port $((49152 + 200 * part)) --launch-skip $((part * launches)) \
      $((( part < parts - 1 )) && echo --launch-count $launches) "$@" >"$logs/$(printf %03d $part).log" 2>&1 &
    runs+=($!)
  done
  for run in "${runs[@]}"; do wait "$run" || status=1; done
done
summarize && exit $status
