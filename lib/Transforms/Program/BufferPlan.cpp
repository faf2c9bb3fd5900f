//===- BufferPlan.cpp - independent check of an arena plan -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/Program/BufferPlan.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <map>

using namespace mlir;
using namespace mlir::k3;

namespace {
/// Who owns the bytes of the arena right now: start -> (end, buffer).
class Arena {
public:
  /// Null, or a buffer that owns some of the bytes.
  ExecBufferOp findOwner(int64_t begin, int64_t end) const {
    for (const auto &[start, owner] : owners)
      if (start < end && begin < owner.first)
        return owner.second;
    return {};
  }
  void acquire(ExecBufferOp buffer) {
    if (*buffer.getArenaBytes() > 0)
      owners[*buffer.getArenaOffset()] = {*buffer.getArenaOffset() + *buffer.getArenaBytes(), buffer};
  }
  void release(ExecBufferOp buffer) {
    if (auto it = owners.find(*buffer.getArenaOffset()); it != owners.end() && it->second.second == buffer)
      owners.erase(it);
  }

private:
  std::map<int64_t, std::pair<int64_t, ExecBufferOp>> owners;
};
} // namespace

static bool isInArena(ExecBufferOp buffer) {
  return buffer.getRole() == BufferRole::persistent || buffer.getRole() == BufferRole::transient;
}

static LogicalResult verifyPlace(ExecBufferOp buffer, int64_t arenaBytes) {
  if (!isInArena(buffer))
    return success();
  if (!buffer.getArenaOffset())
    return buffer.emitOpError("expected a place in the arena");
  int64_t offset = *buffer.getArenaOffset(), bytes = *buffer.getArenaBytes();
  std::optional<int64_t> wanted = buffer.getMaximalBytes();
  if (!wanted || bytes < *wanted)
    return buffer.emitOpError() << "expected at least " << wanted.value_or(0) << " bytes in the arena, got " << bytes;
  if (offset < 0 || offset % kArenaAlignment != 0)
    return buffer.emitOpError() << "expected a multiple of " << kArenaAlignment << " as offset, got " << offset;
  if (offset > arenaBytes || bytes > arenaBytes - offset)
    return buffer.emitOpError() << "expected to lie inside the arena of " << arenaBytes << " bytes, got " << offset
                                << " + " << bytes;
  return success();
}

/// Runs one section on paper. `arena` holds the persistent buffers.
static LogicalResult verifySection(ExecProgramOp program, Operation *section, Arena arena) {
  llvm::MapVector<Operation *, unsigned> remaining; // Dispatches that will still use a buffer.
  section->walk([&](ExecDispatchOp dispatch) {
    for (auto binding : dispatch.getBindings().getAsRange<BindingAttr>())
      if (binding.getKind() == BindingKind::buffer)
        ++remaining[program.lookupBuffer(binding.getName())];
  });
  llvm::SmallPtrSet<Operation *, 16> live;
  for (auto group : section->getRegion(0).getOps<ExecGroupOp>()) {
    // Acquire everything the group needs before anything is given back: its dispatches run at the same time.
    for (ExecDispatchOp dispatch : group.getDispatches())
      for (auto binding : dispatch.getBindings().getAsRange<BindingAttr>()) {
        if (binding.getKind() != BindingKind::buffer)
          continue;
        ExecBufferOp buffer = program.lookupBuffer(binding.getName());
        if (buffer.getRole() != BufferRole::transient || live.contains(buffer))
          continue;
        if (!binding.getWrites())
          return dispatch.emitOpError() << "reads buffer '" << buffer.getName() << "' before it is written";
        int64_t begin = *buffer.getArenaOffset(), end = begin + *buffer.getArenaBytes();
        if (ExecBufferOp owner = arena.findOwner(begin, end)) {
          InFlightDiagnostic error = dispatch.emitOpError()
                                     << "writes buffer '" << buffer.getName() << "' at " << begin << " to " << end
                                     << " over buffer '" << owner.getName() << "', which is still needed";
          error.attachNote(owner.getLoc())
              << "at " << *owner.getArenaOffset() << " to " << *owner.getArenaOffset() + *owner.getArenaBytes();
          return error;
        }
        arena.acquire(buffer);
        live.insert(buffer);
      }
    for (ExecDispatchOp dispatch : group.getDispatches())
      for (auto binding : dispatch.getBindings().getAsRange<BindingAttr>())
        if (binding.getKind() == BindingKind::buffer)
          if (ExecBufferOp buffer = program.lookupBuffer(binding.getName());
              --remaining[buffer] == 0 && buffer.getRole() == BufferRole::transient)
            arena.release(buffer);
  }
  return success();
}

LogicalResult k3::verifyBufferPlan(ExecProgramOp program) {
  if (!program.getArenaBytes())
    return program.emitOpError("expected arena_bytes");
  Arena arena;
  for (ExecBufferOp buffer : program.getBuffers()) {
    if (failed(verifyPlace(buffer, *program.getArenaBytes())))
      return failure();
    if (buffer.getRole() != BufferRole::persistent)
      continue;
    int64_t begin = *buffer.getArenaOffset();
    if (ExecBufferOp owner = arena.findOwner(begin, begin + *buffer.getArenaBytes()))
      return buffer.emitOpError() << "overlaps buffer '" << owner.getName() << "', which lives as long";
    arena.acquire(buffer);
  }
  for (Operation *section : program.getSections())
    if (failed(verifySection(program, section, arena)))
      return failure();
  return success();
}
