//===- ChunkPrepare.h - what both forms of chunk_prepare share -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// One block makes one chunk of 64 rows of one head. All exponents are in base 2 and relative to a row of a tile of 16 rows,
// of which a chunk has four; R_I is the sum of the gates up to and including the first row of tile I, R_4 that of the whole
// chunk:
//
//   G_i - R_I <= 0 for its rows i                  scales q and k of the rows of a product
//   R_{I+1} - G_j <= 0                             scales k of the columns of tiles further down,
//   R_{I'} - R_{I+1} <= 0, per channel             the rest of the way to tile I'
//
// so Akk_ij = sum_d k_i exp(G_i - R_I) k_j exp(R_J+1 - G_j) exp(R_I - R_J+1) has no exponent above 0. Tiles on the diagonal
// are what the two forms differ in (EmitKdaPrepare.cpp, EmitKdaPrepareBounded.cpp).
//
// w and u solve (I + L) X = diag(b) Y with L = strict_lower(diag(b) Akk) by tiles: X_I = T_I (Y_I - sum_J Akk_IJ X_J) with
// T_I = (I + L_II)^-1 diag(b_I) (forward substitution in f32). This runs on X^T, whose sums are the operands of the next
// product as they stand; a warp has 16 columns of w or u, and no other warp needs them.
//
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_CHUNKPREPARE_H
#define K3_CODEGEN_GPU_CHUNKPREPARE_H

#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/Tile/GpuBuilder.h"

namespace mlir::k3 {

class ChunkPrepare {
public:
  static constexpr int64_t rows = 64, tileRows = 16, tiles = rows / tileRows;
  /// Pairs of tiles below the diagonal; those of row tile I come after those of the tiles before it.
  static constexpr int64_t lowerPairs = tiles * (tiles - 1) / 2;
  static constexpr int64_t firstPair(int64_t tile) { return tile * (tile - 1) / 2; }
  /// Bytes after each row of a tile, so that rows start in different banks.
  static constexpr int64_t padding = 16;
  static constexpr int64_t pairPitch = 2 * rows + padding, inversePitch = 2 * tileRows + padding,
                           diagonalPitch = 4 * (tileRows + 4);

  /// Gives out shared memory.
  class Places {
  public:
    int64_t take(int64_t bytes) {
      int64_t offset = end;
      end = llvm::alignTo(end + bytes, 16);
      return offset;
    }
    int64_t total() const { return end; }

  private:
    int64_t end = 0;
  };

  /// Where what the last part works on is in shared memory, in bytes.
  struct SolveLayout {
    int64_t keyPitch, valuePitch;
    int64_t k;        ///< k' exp(G - R), replaced by w
    int64_t v;        ///< v, replaced by u
    int64_t pairs;    ///< -Akk below the diagonal's tiles
    int64_t diagonal; ///< -L of the tiles on the diagonal, f32
    int64_t inverse;  ///< the transposes of T
    int64_t factors;  ///< exp(R), per tile
    int64_t betas;    ///< b
    SolveLayout(int64_t key, int64_t value) : keyPitch(2 * key + padding), valuePitch(2 * value + padding) {}
  };

protected:
  using Values = SmallVector<Value>;

  ChunkPrepare(OpBuilder &b, KdaChunkPrepareOp op, KernelConfigAttr config, const GpuTarget &target,
               const SolveLayout &solveAt);

  ~ChunkPrepare() = default;

  /// All of the kernel. Several blocks hide each other's barriers; where u has more columns than there are keys, that would
  /// leave too few registers.
  void emit();
  /// What a block of a chunk does.
  virtual void emitChunk() = 0;
  /// Where this thread is. Made anew in each phase: what follows from it is cheap, and would take registers in between.
  virtual void locate();
  void nextPhase() {
    g.barrier();
    locate();
  }

  //===--- small things ---===//
  Value shared(int64_t base, Value offset) { return g.advance(g.shared(base), offset, g.i8()); }
  /// Row `row` of a tile with `pitch`, from byte `column` on.
  Value rowOf(int64_t base, Value row, int64_t pitch, Value column) {
    return shared(base, g.add(g.mul(row, pitch), column));
  }
  /// The same value, but a new one to the compiler: what is made of it will not be kept from one use to the next.
  Value renew(Value x) { return g.ptx(x.getType(), "mov.b32 $0, $1;", x, /*volatile_=*/true); }
  Values zeros(int64_t n) { return Values(n, g.f32(0)); }
  Value betaOf(Value row) { return g.loadRaw(g.advance(g.shared(solveAt.betas), row, g.f32()), g.f32()); }

  //===--- inputs ---===//
  /// Neighbouring channels of a row: bf16 packed in pairs, or f32.
  Values loadChannels(Value from, Value pointer, int64_t count);
  /// What `loadChannels` gave, as f32, and packed.
  Values widen(const Values &loaded);
  Values narrow(const Values &loaded);
  /// A gate of 0, or the logit of which one is made, in place of such a value.
  Value noDecay(Type loaded);

  /// What gates of one head are made with.
  struct GateFactors {
    Values bias;
    Value rate;
  };
  /// For `count` channels from `channel` on.
  GateFactors loadGateFactors(Value channel, int64_t count);
  /// Log-decays in base 2; each row has the channels of the factors.
  void makeGates(GateFactors factors, ArrayRef<MutableArrayRef<Value>> gateRows);
  /// Of the first threads, a row each: the logit of b, then b itself to shared memory, 0 past the end.
  Value loadBetaLogit();
  void storeBeta(Value logit);
  /// v to shared memory, by asynchronous copies where it is bf16; rows past the end become 0.
  void loadValues();

  /// What gives a row with this sum of squares the length `factor`.
  Value scaleToUnit(Value factor, Value squares);
  /// Sums of values[i] over `width` lanes; lane l gets that of values[l % values.size()].
  Value reduceAcross(Values values, int64_t width);

  //===--- products and solution ---===//
  /// Addresses of this lane's rows in fragments (see Atoms.h): A of 16 rows and one step; B of 8 rows and two steps; B of 16
  /// rows and one step.
  Value rowsOffset(int64_t pitch);
  Value columnsOffset(int64_t pitch);
  Value pairedColumnsOffset(int64_t pitch);
  /// T of a tile, by a warp.
  void invertDiagonal(Value ofTile);

  /// 16 columns of w or u on their way through the tiles of rows.
  struct Columns {
    Value pointer;  ///< this lane's rows of the columns in shared memory
    int64_t pitch;
    Value factors;  ///< exp(R) of this lane's two channels, or null
    SmallVector<Values> solved;
  };
  Columns columnsOfW(Value number);
  Columns columnsOfU(Value number);
  void solveColumns(MutableArrayRef<Columns> all);
  /// All rows of a part of `width` columns from shared memory to memory: rows are contiguous, and L2 is asked for whole lines.
  void storeRows(Value to, int64_t base, int64_t pitch, int64_t width);
  void storeW() { storeRows(op.getW(), solveAt.k, solveAt.keyPitch, key); }
  void storeU() { storeRows(op.getU(), solveAt.v, solveAt.valuePitch, value); }

  GpuBuilder g;
  KdaChunkPrepareOp op;
  int64_t key, value;
  Value head, chunk, first, count, thread, lane, warp;

private:
  Columns columnsAt(int64_t base, int64_t pitch, Value number, Value factors);
  Values multiplyTile(ValueRange a, ValueRange b, ValueRange sums);
  SolveLayout solveAt;
};

/// The form for gates with a bound.
int64_t boundedPrepareSharedBytes(int64_t key, int64_t value);
int64_t boundedPrepareThreads(int64_t key);
void emitBoundedPrepare(OpBuilder &b, KdaChunkPrepareOp op, KernelConfigAttr config, const GpuTarget &target);

} // namespace mlir::k3

#endif // K3_CODEGEN_GPU_CHUNKPREPARE_H
