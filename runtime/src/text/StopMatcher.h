//===- StopMatcher.h - when to stop generating --------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_TEXT_STOPMATCHER_H
#define K3RT_TEXT_STOPMATCHER_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace k3rt {

struct StopOptions {
  /// Generation ends at any of these ids; the id itself gives no text.
  std::vector<int32_t> stopIds;
  /// Generation ends where any of these texts is complete; the text given out
  /// ends before it. None may be empty.
  std::vector<std::string> stopStrings;
};

/// Watches generated ids and text for stop conditions. Text that could be the
/// start of a stop string is held back until it is known not to be. The outcome
/// does not depend on how the text is cut into pieces: of several stop strings
/// the one that is complete first counts, of those the longest.
class StopMatcher {
public:
  /// False with `error` set for an empty stop string.
  [[nodiscard]] bool init(StopOptions options, std::string &error);

  bool isStopId(int32_t id) const;

  /// Takes `text` and appends to `out` what may be given out now. True once a
  /// stop string is complete; text after it is ignored.
  bool push(std::string_view text, std::string &out);
  /// Ends the stream: appends what was held back.
  void finish(std::string &out);
  bool stopped() const { return done; }
  /// The stop string that was found; empty before.
  std::string_view found() const { return match; }

private:
  struct Target {
    std::string text;
    // Knuth-Morris-Pratt: length of the longest border of each prefix.
    std::vector<uint32_t> border;
    // Length of the longest prefix that ends the text so far.
    uint32_t matched = 0;
  };

  std::vector<int32_t> stopIds;
  std::vector<Target> targets;
  std::string held;
  std::string match;
  bool done = false;
};

} // namespace k3rt

#endif // K3RT_TEXT_STOPMATCHER_H
