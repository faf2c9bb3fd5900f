//===- StopMatcher.cpp - when to stop generating ------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/text/StopMatcher.h"

#include <algorithm>

namespace k3rt {

bool StopMatcher::init(StopOptions options, std::string &error) {
  stopIds = std::move(options.stopIds);
  targets.clear();
  held.clear();
  match.clear();
  done = false;
  for (std::string &text : options.stopStrings) {
    if (text.empty()) {
      error = "a stop string is empty";
      return false;
    }
    Target target;
    target.border.assign(text.size(), 0);
    for (size_t i = 1, length = 0; i < text.size(); ++i) {
      while (length != 0 && text[i] != text[length])
        length = target.border[length - 1];
      if (text[i] == text[length])
        ++length;
      target.border[i] = static_cast<uint32_t>(length);
    }
    target.text = std::move(text);
    targets.push_back(std::move(target));
  }
  return true;
}

bool StopMatcher::isStopId(int32_t id) const {
  return std::find(stopIds.begin(), stopIds.end(), id) != stopIds.end();
}

bool StopMatcher::push(std::string_view text, std::string &out) {
  if (done)
    return true;
  for (char byte : text) {
    held += byte;
    const Target *complete = nullptr;
    for (Target &target : targets) {
      uint32_t &length = target.matched;
      while (length != 0 && target.text[length] != byte)
        length = target.border[length - 1];
      if (target.text[length] == byte)
        ++length;
      if (length == target.text.size() &&
          (!complete || target.text.size() > complete->text.size()))
        complete = &target;
    }
    if (complete) {
      match = complete->text;
      out.append(held, 0, held.size() - match.size());
      held.clear();
      done = true;
      return true;
    }
  }
  size_t keep = 0;
  for (const Target &target : targets)
    keep = std::max<size_t>(keep, target.matched);
  out.append(held, 0, held.size() - keep);
  held.erase(0, held.size() - keep);
  return false;
}

void StopMatcher::finish(std::string &out) {
  if (!done)
    out += held;
  held.clear();
}

} // namespace k3rt
