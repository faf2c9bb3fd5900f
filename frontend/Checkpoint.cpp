//===- Checkpoint.cpp - a model directory, every tensor accounted for -----===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/Checkpoint.h"
#include "frontend/CheckpointIndex.h"
#include "frontend/File.h"
#include "frontend/Safetensors.h"
#include "frontend/Text.h"
#include "frontend/WeightValues.h"

#include <algorithm>
#include <dirent.h>

namespace k3::frontend {

void ProblemList::add(Kind kind, std::string text) {
  addLazily(kind, [&] { return std::move(text); });
}

bool ProblemList::empty() const {
  return std::all_of(groups.begin(), groups.end(),
                     [](const Group &group) { return group.count == 0; });
}

const char *ProblemList::title(Kind kind) {
  switch (kind) {
  case MissingShard:
    return "missing shard";
  case BadShard:
    return "unreadable shard";
  case IndexDisagrees:
    return "disagreement of index and shards";
  case MissingTensor:
    return "missing tensor";
  case UnexpectedTensor:
    return "unexpected tensor";
  case WrongShape:
    return "wrong shape";
  case WrongDtype:
    return "wrong dtype";
  case MixedForms:
    return "tensor stored unlike other layers";
  case BadValue:
    return "bad value";
  case BadTokenizer:
    return "tokenizer problem";
  }
  return "";
}

std::string ProblemList::oneLine() const {
  std::string line;
  for (size_t kind = 0; kind < numKinds; ++kind) {
    const Group &group = groups[kind];
    if (group.count == 0)
      continue;
    const size_t shown = line.empty() ? group.first.size() : 1;
    if (!line.empty())
      line += "; ";
    line += title(static_cast<Kind>(kind));
    if (group.count > 1)
      line += " (" + std::to_string(group.count) + " in all)";
    line += ": ";
    for (size_t i = 0; i < shown; ++i)
      line += (i ? ", " : "") + group.first[i];
    if (group.count > shown)
      line += ", ...";
  }
  return line;
}

const CheckpointTensor *Checkpoint::find(std::string_view name) const {
  auto found = std::lower_bound(
      table.begin(), table.end(), name,
      [](const CheckpointTensor &a, std::string_view b) { return a.name < b; });
  return found != table.end() && found->name == name ? &*found : nullptr;
}

const TensorForm *Checkpoint::form(uint32_t templateIndex) const {
  int position = forms[templateIndex];
  if (position < 0)
    return nullptr;
  return &tensorPlan.templates()[templateIndex]
              .forms[static_cast<size_t>(position)];
}

uint64_t Checkpoint::missingShards() const {
  return static_cast<uint64_t>(
      std::count_if(shardFiles.begin(), shardFiles.end(),
                    [](const CheckpointFile &file) { return !file.present; }));
}

uint64_t Checkpoint::weightBytes() const {
  uint64_t total = 0;
  for (const CheckpointTensor &tensor : table)
    total += tensor.bytes;
  return total;
}

/// Fills one Checkpoint.
class CheckpointReader {
public:
  CheckpointReader(const std::string &directory,
                   const CheckpointOptions &options, Checkpoint &checkpoint,
                   ProblemList &problems)
      : directory(directory), options(options), checkpoint(checkpoint),
        problems(problems), seen(checkpoint.tensorPlan.templates().size()) {
    const auto &templates = checkpoint.tensorPlan.templates();
    for (size_t i = 0; i < templates.size(); ++i)
      seen[i].resize(templates[i].count());
    checkpoint.forms.assign(templates.size(), -1);
  }

  Status run();

private:
  static constexpr const char *indexName = "model.safetensors.index.json";
  static constexpr const char *singleName = "model.safetensors";

  void addFile(const std::string &name);
  void readHeaders();
  void accountIndexed(const CheckpointIndex &index);
  void accountSingle();
  void account(const std::string &name);
  void reportMissing();
  void addTensor(const SafetensorsTensor &tensor, uint32_t file);
  void checkForm(const CheckpointTensor &tensor);
  void noteStrayFiles();
  void noteTotalSize();

  /// Position of an instance in the bits of its template.
  static size_t instance(const TensorTemplate &entry, const TensorRef &ref) {
    size_t at = 0;
    if (entry.isPerLayer())
      at = static_cast<size_t>(std::lower_bound(entry.layers.begin(),
                                                entry.layers.end(), ref.layer) -
                               entry.layers.begin());
    if (entry.isPerExpert())
      at = at * static_cast<size_t>(entry.numExperts) +
           static_cast<size_t>(ref.expert);
    return at;
  }

  const std::string &directory;
  const CheckpointOptions &options;
  Checkpoint &checkpoint;
  ProblemList &problems;
  std::vector<std::vector<bool>> seen;    ///< per template and instance
  std::vector<SafetensorsHeader> headers; ///< per file
  std::vector<bool> readable;             ///< per file
};

void CheckpointReader::addFile(const std::string &name) {
  CheckpointFile file;
  file.name = name;
  file.path = joinPath(directory, name);
  checkpoint.shardFiles.push_back(std::move(file));
}

Status CheckpointReader::run() {
  const std::string indexPath = joinPath(directory, indexName);
  if (pathExists(indexPath)) {
    Expected<CheckpointIndex> index = CheckpointIndex::read(indexPath);
    if (!index)
      return index.status();
    checkpoint.statedSize = index->totalSize();
    for (const std::string &name : index->shards())
      addFile(name);
    readHeaders();
    accountIndexed(*index);
    noteStrayFiles();
  } else if (pathExists(joinPath(directory, singleName))) {
    addFile(singleName);
    readHeaders();
    accountSingle();
  } else {
    return Status::error(printable(directory) + ": has neither " + indexName +
                         " nor " + singleName);
  }
  reportMissing();
  std::sort(checkpoint.table.begin(), checkpoint.table.end(),
            [](const auto &a, const auto &b) { return a.name < b.name; });
  noteTotalSize();
  if (checkpoint.numVision > 0)
    checkpoint.remarks.push_back(
        counted(checkpoint.numVision, "vision tensor") + " skipped");
  return Status::success();
}

void CheckpointReader::readHeaders() {
  headers.resize(checkpoint.shardFiles.size());
  readable.assign(checkpoint.shardFiles.size(), false);
  for (size_t i = 0; i < headers.size(); ++i) {
    CheckpointFile &file = checkpoint.shardFiles[i];
    if (!pathExists(file.path)) {
      if (!options.allowMissingShards)
        problems.add(ProblemList::MissingShard, printable(file.name));
      continue;
    }
    Expected<SafetensorsHeader> header = readSafetensorsHeader(file.path);
    file.present = true;
    if (!header) {
      problems.add(ProblemList::BadShard, header.message());
      continue;
    }
    file.size = header->fileSize;
    headers[i] = std::move(*header);
    readable[i] = true;
  }
}

void CheckpointReader::account(const std::string &name) {
  ++checkpoint.numListed;
  if (TensorPlan::isVision(name)) {
    ++checkpoint.numVision;
    return;
  }
  std::optional<TensorRef> ref = checkpoint.tensorPlan.match(name);
  if (!ref) {
    problems.add(ProblemList::UnexpectedTensor, printable(name));
    return;
  }
  const TensorTemplate &entry =
      checkpoint.tensorPlan.templates()[ref->templateIndex];
  seen[ref->templateIndex][instance(entry, *ref)] = true;
}

void CheckpointReader::accountIndexed(const CheckpointIndex &index) {
  for (const CheckpointIndex::Entry &entry : index.entries()) {
    account(std::string(entry.name));
    if (!readable[entry.shard] || headers[entry.shard].find(entry.name))
      continue;
    problems.addLazily(ProblemList::IndexDisagrees, [&] {
      std::string text = printable(entry.name) + " is not in " +
                         printable(index.shards()[entry.shard]) +
                         ", where the index puts it";
      for (size_t i = 0; i < headers.size(); ++i)
        if (headers[i].find(entry.name)) {
          text += ", but in " + printable(index.shards()[i]);
          break;
        }
      return text;
    });
  }
  for (uint32_t i = 0; i < headers.size(); ++i)
    for (const SafetensorsTensor &tensor : headers[i].tensors) {
      const CheckpointIndex::Entry *entry = index.find(tensor.name);
      if (!entry)
        problems.add(ProblemList::IndexDisagrees,
                     printable(tensor.name) + " is in " +
                         printable(index.shards()[i]) +
                         ", but not in the index");
      else if (entry->shard != i && readable[entry->shard] &&
               headers[entry->shard].find(tensor.name))
        problems.add(ProblemList::IndexDisagrees,
                     printable(tensor.name) + " is in " +
                         printable(index.shards()[entry->shard]) + " and in " +
                         printable(index.shards()[i]));
      else if (entry->shard == i)
        addTensor(tensor, i);
    }
}

void CheckpointReader::accountSingle() {
  for (const SafetensorsTensor &tensor : headers[0].tensors) {
    account(tensor.name);
    addTensor(tensor, 0);
  }
}

void CheckpointReader::addTensor(const SafetensorsTensor &tensor,
                                 uint32_t file) {
  std::optional<TensorRef> ref = checkpoint.tensorPlan.match(tensor.name);
  if (!ref) // A vision tensor, or reported as unexpected.
    return;
  CheckpointTensor entry;
  entry.name = tensor.name;
  entry.ref = *ref;
  entry.file = file;
  entry.offset = tensor.offset;
  entry.bytes = tensor.bytes;
  entry.dtype = tensor.dtype;
  entry.shape = tensor.shape;
  checkForm(entry);
  checkpoint.table.push_back(std::move(entry));
}

/// "F32 [96] or BF16 [96]"
static std::string formsText(const std::vector<TensorForm> &forms) {
  std::string out;
  for (const TensorForm &form : forms)
    out += (out.empty() ? "" : " or ") + std::string(dtypeName(form.dtype)) +
           ' ' + shapeText(form.shape);
  return out;
}

void CheckpointReader::checkForm(const CheckpointTensor &tensor) {
  const TensorTemplate &entry =
      checkpoint.tensorPlan.templates()[tensor.ref.templateIndex];
  int match = -1;
  bool shapeKnown = false;
  for (size_t i = 0; i < entry.forms.size() && match < 0; ++i) {
    bool sameShape = entry.forms[i].shape == tensor.shape;
    shapeKnown |= sameShape;
    if (sameShape && entry.forms[i].dtype == tensor.dtype)
      match = static_cast<int>(i);
  }
  const std::string got = printable(tensor.name) + " is " +
                          dtypeName(tensor.dtype) + ' ' +
                          shapeText(tensor.shape) + ", wanted ";
  if (match < 0) {
    problems.add(shapeKnown ? ProblemList::WrongDtype : ProblemList::WrongShape,
                 got + formsText(entry.forms));
    return;
  }
  int &common = checkpoint.forms[tensor.ref.templateIndex];
  if (common < 0)
    common = match;
  else if (common != match)
    problems.add(ProblemList::MixedForms,
                 got + formsText({entry.forms[static_cast<size_t>(common)]}) +
                     " as elsewhere");
}

void CheckpointReader::reportMissing() {
  // A shard that is there but unreadable has been reported; in a single file
  // everything would follow as missing.
  if (checkpoint.shardFiles.size() == 1 && !readable[0] &&
      checkpoint.shardFiles[0].name == singleName)
    return;
  const auto &templates = checkpoint.tensorPlan.templates();
  for (size_t t = 0; t < templates.size(); ++t) {
    const TensorTemplate &entry = templates[t];
    const std::vector<bool> &bits = seen[t];
    bool none = std::find(bits.begin(), bits.end(), true) == bits.end();
    if (entry.optional && none)
      continue;
    const size_t experts =
        entry.isPerExpert() ? static_cast<size_t>(entry.numExperts) : 1;
    for (size_t i = 0; i < bits.size(); ++i) {
      if (bits[i])
        continue;
      problems.addLazily(ProblemList::MissingTensor, [&] {
        std::string name =
            entry.name(entry.isPerLayer() ? entry.layers[i / experts] : -1,
                       static_cast<int64_t>(i % experts));
        if (entry.key == "self_attn.A_log" && !entry.optional)
          name += " (may be absent only with "
                  "linear_attn_config.gate_lower_bound)";
        return name;
      });
    }
  }
}

void CheckpointReader::noteStrayFiles() {
  DIR *listing = ::opendir(directory.c_str());
  if (!listing)
    return;
  std::vector<std::string> stray, names;
  for (const CheckpointFile &file : checkpoint.shardFiles)
    names.push_back(file.name);
  std::sort(names.begin(), names.end());
  const std::string suffix = ".safetensors";
  while (const dirent *item = ::readdir(listing)) {
    std::string name = item->d_name;
    bool listed = std::binary_search(names.begin(), names.end(), name);
    if (!listed && name.size() > suffix.size() &&
        name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0)
      stray.push_back(std::move(name));
  }
  ::closedir(listing);
  if (stray.empty())
    return;
  std::sort(stray.begin(), stray.end());
  checkpoint.remarks.push_back(
      printable(stray[0]) +
      (stray.size() > 1
           ? " and " + counted(stray.size() - 1, "other .safetensors file")
           : "") +
      " ignored: not named by the index");
}

void CheckpointReader::noteTotalSize() {
  if (!checkpoint.statedSize ||
      std::find(readable.begin(), readable.end(), false) != readable.end())
    return;
  uint64_t total = 0;
  for (const SafetensorsHeader &header : headers)
    total += header.fileSize - header.dataStart;
  if (total != *checkpoint.statedSize)
    checkpoint.remarks.push_back("the index states a total_size of " +
                                 std::to_string(*checkpoint.statedSize) +
                                 ", the shards hold " + std::to_string(total) +
                                 " bytes of tensors");
}

Expected<Checkpoint> Checkpoint::open(const std::string &directory,
                                      const CheckpointOptions &options,
                                      ProblemList *problems) {
  Expected<ModelConfig> config =
      readModelConfig(joinPath(directory, "config.json"));
  if (!config)
    return config.status();
  Checkpoint checkpoint(std::move(*config));
  ProblemList found;
  ProblemList &list = problems ? *problems : found;
  CheckpointReader reader(directory, options, checkpoint, list);
  if (Status status = reader.run(); !status.ok())
    return status;
  if (!problems && !found.empty())
    return Status::error(printable(directory) + ": " + found.oneLine());
  return checkpoint;
}

Status Checkpoint::checkSmallValues(std::vector<std::string> &notes) const {
  std::vector<char> bytes;
  std::vector<const CheckpointTensor *> order;
  for (const CheckpointTensor &tensor : table)
    if (tensorPlan.templates()[tensor.ref.templateIndex].isSmall)
      order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](auto *a, auto *b) {
    return std::pair(a->file, a->offset) < std::pair(b->file, b->offset);
  });
  std::optional<InputFile> file;
  uint32_t opened = 0;
  for (const CheckpointTensor *tensor : order) {
    const std::string &path = shardFiles[tensor->file].path;
    if (!file || opened != tensor->file) {
      Expected<InputFile> next = InputFile::open(path);
      if (!next)
        return next.status();
      file.emplace(std::move(*next));
      opened = tensor->file;
    }
    bytes.resize(tensor->bytes);
    if (Status status = file->read(tensor->offset, bytes.data(), bytes.size());
        !status.ok())
      return status;
    if (Status status = checkFinite(bytes.data(), tensor->dtype, tensor->shape,
                                    tensor->name, path);
        !status.ok())
      return status;
    const TensorTemplate &entry =
        tensorPlan.templates()[tensor->ref.templateIndex];
    if (entry.key != "self_attn.A_log")
      continue;
    int64_t count =
        static_cast<int64_t>(bytes.size() / (bitWidth(tensor->dtype) / 8));
    Status padding =
        checkALogPadding(bytes.data(), tensor->dtype, count,
                         modelConfig.kda.num_heads, tensor->name, path);
    if (!padding.ok())
      notes.push_back(padding.message());
  }
  return Status::success();
}

} // namespace k3::frontend
