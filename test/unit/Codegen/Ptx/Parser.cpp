//===- Parser.cpp - PTX text to instructions ------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Codegen/Ptx/Program.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>

namespace k3::test::ptx {

namespace {

std::string withoutComments(const std::string &text) {
  std::string out;
  for (std::size_t i = 0; i < text.size() && text[i] != '\0';) {
    if (text.compare(i, 2, "//") == 0) {
      while (i < text.size() && text[i] != '\n')
        ++i;
    } else {
      out += text[i++];
    }
  }
  return out;
}

bool isWordChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%'; }

std::size_t alignUp(std::size_t value, std::size_t alignment) { return (value + alignment - 1) / alignment * alignment; }

std::size_t typeBytes(const std::string &type) { // ".b8", ".u32", ".f64"
  std::size_t digits = type.find_first_of("0123456789");
  return digits == std::string::npos ? 1 : std::stoul(type.substr(digits)) / 8;
}

class Parser {
public:
  explicit Parser(const std::string &text) : text(withoutComments(text)), program(new PtxProgram) {}

  std::unique_ptr<PtxProgram> parse() {
    while (skipSpace(), at < text.size())
      parseTopLevel();
    program->sharedStatic = alignUp(program->sharedStatic, 1024);
    for (auto &[name, parsed] : program->kernels)
      finishKernel(parsed);
    return std::move(program);
  }

private:
  //===--- characters and words ---===//
  void skipSpace() {
    while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])))
      ++at;
  }
  char peek() {
    skipSpace();
    return at < text.size() ? text[at] : '\0';
  }
  bool take(char c) {
    if (peek() != c)
      return false;
    ++at;
    return true;
  }
  void expect(char c) {
    if (!take(c))
      error(std::string("expected '") + c + "'");
  }
  /// A name, a number or a directive.
  std::string word() {
    skipSpace();
    std::size_t begin = at;
    if (at < text.size() && text[at] == '.')
      ++at;
    while (at < text.size() && isWordChar(text[at]))
      ++at;
    return text.substr(begin, at - begin);
  }
  int lineAt(std::size_t place) const {
    return static_cast<int>(std::count(text.begin(), text.begin() + static_cast<long>(std::min(place, text.size())), '\n')) + 1;
  }
  [[noreturn]] void error(const std::string &what) {
    fail("line " + std::to_string(lineAt(at)) + ": " + what + ": " + text.substr(std::min(at, text.size()), 40));
  }
  void skipLine() { at = std::min(text.find('\n', at), text.size()); }

  //===--- declarations ---===//
  void parseTopLevel() {
    std::string directive = word();
    if (directive == ".version" || directive == ".target" || directive == ".address_size" || directive == ".file")
      return skipLine();
    bool isExtern = false;
    while (directive == ".extern" || directive == ".visible" || directive == ".weak") {
      isExtern |= directive == ".extern";
      directive = word();
    }
    if (directive == ".entry")
      return parseEntry();
    if (directive == ".shared")
      return parseShared(isExtern);
    if (directive == ".global" || directive == ".const")
      return parseGlobal();
    error("unknown declaration " + directive);
  }

  struct Variable {
    std::string name;
    std::size_t alignment = 1, element = 1, size = 0;
    bool sized = true;
  };
  Variable parseVariable() {
    Variable variable;
    std::string type = word();
    while (type == ".align" || type == ".attribute") {
      variable.alignment = std::stoul(word());
      type = word();
    }
    variable.element = typeBytes(type);
    variable.name = word();
    variable.size = variable.element;
    while (take('[')) {
      std::string count = word();
      variable.sized &= !count.empty();
      variable.size *= count.empty() ? 0 : std::stoul(count);
      expect(']');
    }
    return variable;
  }

  void parseShared(bool isExtern) {
    Variable variable = parseVariable();
    expect(';');
    if (isExtern || !variable.sized) { // the dynamic part, behind all others
      dynamicSymbols.insert(variable.name);
      return;
    }
    program->sharedStatic = alignUp(program->sharedStatic, variable.alignment);
    sharedSymbols[variable.name] = program->sharedStatic;
    program->sharedStatic += variable.size;
  }

  void parseGlobal() {
    Variable variable = parseVariable();
    auto bytes = std::make_unique<std::vector<std::uint8_t>>(variable.size);
    if (take('=')) {
      bool list = take('{');
      for (std::size_t i = 0; i < variable.size; i += variable.element) {
        if (list && peek() == '}')
          break;
        Bits value = parseNumber().value;
        std::memcpy(bytes->data() + i, &value, variable.element);
        if (!take(','))
          break;
      }
      if (list)
        expect('}');
    }
    expect(';');
    program->globals[variable.name] = std::move(bytes);
  }

  void parseEntry() {
    std::string name = word();
    kernel = &program->kernels[name];
    kernel->name = name;
    registers.clear();
    labels = &labelsOf[name];
    scopes = {{}};
    scopeCount = 0;
    if (take('('))
      while (!take(')')) {
        parseParameter();
        take(',');
      }
    while (peek() != '{') { // .maxntid 128, 1, 1 and the like
      if (at >= text.size())
        error("expected a body");
      ++at;
    }
    expect('{');
    for (int depth = 1; depth > 0;) {
      if (at >= text.size())
        error("kernel " + name + " does not end");
      if (take('{')) {
        ++depth;
        scopes.push_back({});
        scopes.back()[""] = std::to_string(++scopeCount);
      } else if (take('}')) {
        --depth;
        scopes.pop_back();
      } else {
        parseStatement();
      }
      skipSpace();
    }
  }

  void parseParameter() {
    if (word() != ".param")
      error("expected .param");
    std::size_t alignment = 0;
    std::string token = word(), type;
    while (!token.empty() && token[0] == '.') {
      if (token == ".align") {
        std::size_t value = std::stoul(word());
        if (type.empty()) // behind the type of a pointer it says what that points to
          alignment = value;
      } else if (token != ".ptr" && token != ".global" && token != ".shared" && token != ".const") {
        type = token;
      }
      token = word();
    }
    std::size_t size = typeBytes(type);
    alignment = std::max(alignment, size);
    if (take('[')) {
      size *= std::stoul(word());
      expect(']');
    }
    kernel->paramBytes = alignUp(kernel->paramBytes, alignment);
    kernel->params.push_back({token, kernel->paramBytes, size});
    kernel->paramBytes += size;
  }

  //===--- statements ---===//
  std::string scopedName(const std::string &name, bool define) {
    if (define) {
      std::string id = scopes.size() == 1 ? name : name + "@" + scopes.back()[""];
      scopes.back()[name] = id;
      return id;
    }
    for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
      if (auto it = scope->find(name); it != scope->end())
        return it->second;
    return name;
  }
  /// Labels of an inner scope are used only there.
  std::string labelName(const std::string &name) {
    return scopes.size() == 1 || name[0] == '$' ? name : name + "@" + scopes.back()[""];
  }

  void parseStatement() {
    skipSpace();
    std::size_t begin = at;
    if (text[at] == '.') {
      std::string directive = word();
      if (directive == ".reg")
        return parseRegisters();
      if (directive == ".shared")
        return parseShared(false);
      if (directive == ".loc" || directive == ".pragma")
        return skipLine();
      at = begin;
      error("unknown directive");
    }
    if (isWordChar(text[at])) {
      std::string name = word();
      if (take(':')) {
        (*labels)[labelName(name)] = static_cast<int>(kernel->code.size());
        return;
      }
      at = begin;
    }
    if (take(';'))
      return;
    Instruction in;
    in.line = lineAt(at);
    if (take('@')) {
      in.predicateNegated = take('!');
      in.predicate = registerNumber(word());
    }
    std::string opcode;
    skipSpace();
    while (at < text.size() && (isWordChar(text[at]) || text[at] == '.' || text[at] == ':'))
      opcode += text[at++];
    for (std::size_t start = 0; start <= opcode.size();) {
      std::size_t dot = std::min(opcode.find('.', start), opcode.size());
      in.words.push_back(opcode.substr(start, dot - start));
      start = dot + 1;
    }
    if (opcode.empty())
      error("expected an instruction");
    if (in.words[0] == "bra")
      in.flow = Instruction::Branch;
    if (in.words[0] == "ret" || in.words[0] == "exit")
      in.flow = Instruction::Exit;
    while (!take(';')) {
      if (in.flow == Instruction::Branch)
        in.label = labelName(word());
      else
        in.operands.push_back(parseOperand());
      if (!take(',') && peek() != ';')
        error("expected ',' or ';'");
    }
    in.text = text.substr(begin, std::min<std::size_t>(at - begin, 160));
    std::replace(in.text.begin(), in.text.end(), '\n', ' ');
    kernel->code.push_back(std::move(in));
  }

  void parseRegisters() {
    word(); // type
    do {
      std::string name = word();
      if (take('<')) {
        int count = std::stoi(word());
        expect('>');
        for (int i = 0; i < count; ++i)
          registers[scopedName(name + std::to_string(i), true)] = kernel->registers++;
      } else {
        registers[scopedName(name, true)] = kernel->registers++;
      }
    } while (take(','));
    expect(';');
  }

  int registerNumber(const std::string &name) {
    auto it = registers.find(scopedName(name, false));
    if (it == registers.end())
      error("unknown register " + name);
    return it->second;
  }

  //===--- operands ---===//
  static Special specialRegister(const std::string &name) {
    static const std::map<std::string, Special> names = {
        {"%tid.x", Special::TidX},     {"%tid.y", Special::Zero},     {"%tid.z", Special::Zero},
        {"%ntid.x", Special::NtidX},   {"%ntid.y", Special::One},     {"%ntid.z", Special::One},
        {"%ctaid.x", Special::CtaX},   {"%ctaid.y", Special::CtaY},   {"%ctaid.z", Special::CtaZ},
        {"%nctaid.x", Special::NctaX}, {"%nctaid.y", Special::NctaY}, {"%nctaid.z", Special::NctaZ},
        {"%laneid", Special::Lane},    {"%warpid", Special::WarpNumber}, {"%cluster_ctarank", Special::Zero},
        {"%cluster_nctarank", Special::One}};
    auto it = names.find(name);
    return it == names.end() ? Special::None : it->second;
  }

  Operand parseOperand() {
    Operand operand;
    char c = peek();
    if (c == '{') {
      take('{');
      operand.kind = Operand::Vector;
      while (!take('}')) {
        operand.parts.push_back(parseOperand());
        take(',');
      }
      return operand;
    }
    if (c == '[')
      return parseAddress();
    if (c == '!') {
      take('!');
      operand = parseOperand();
      operand.negated = true;
      return operand;
    }
    if (c == '-' || std::isdigit(static_cast<unsigned char>(c)))
      return parseNumber();
    std::string name = word();
    if (name == "_")
      return operand;
    if (name.empty())
      error("missing operand");
    if (name == "true" || name == "false") {
      operand.kind = Operand::Immediate;
      operand.value = name == "true";
      return operand;
    }
    if (registers.count(scopedName(name, false))) {
      operand.kind = Operand::Register;
      operand.reg = registerNumber(name);
      if (take('|')) {
        std::string other = word();
        operand.second = other == "_" ? -1 : registerNumber(other);
      }
      return operand;
    }
    if (name[0] == '%') {
      if (at < text.size() && text[at] == '.') {
        ++at;
        name += "." + word();
      }
      operand.kind = Operand::SpecialRegister;
      operand.special = specialRegister(name);
      if (operand.special == Special::None)
        error("unknown register " + name);
      return operand;
    }
    for (const Parameter &parameter : kernel->params)
      if (parameter.name == name) {
        operand.kind = Operand::Param;
        operand.value = parameter.offset;
        return operand;
      }
    operand.kind = Operand::Symbol;
    operand.symbol = name;
    return operand;
  }

  Operand parseNumber() {
    Operand operand;
    operand.kind = Operand::Immediate;
    bool negative = take('-');
    std::string digits = word();
    auto startsWith = [&](const char *lower, const char *upper) {
      return digits.compare(0, 2, lower) == 0 || digits.compare(0, 2, upper) == 0;
    };
    Bits value = startsWith("0f", "0F") || startsWith("0d", "0D") ? std::stoull(digits.substr(2), nullptr, 16)
                                                                  : std::stoull(digits, nullptr, 0);
    operand.value = negative ? 0 - value : value;
    return operand;
  }

  Operand parseAddress() {
    Operand operand;
    take('[');
    Operand base = parseOperand();
    operand.kind = Operand::Address;
    if (base.kind == Operand::Register)
      operand.reg = base.reg;
    else if (base.kind == Operand::Symbol)
      operand.symbol = base.symbol;
    else
      operand.value = base.value;
    if (take('+') || peek() == '-')
      operand.value += parseNumber().value;
    if (take(',')) // coordinates
      operand.parts = parseOperand().parts;
    expect(']');
    return operand;
  }

  //===--- when everything is known ---===//
  void resolve(Operand &operand) {
    if (!operand.symbol.empty()) {
      Bits value;
      if (dynamicSymbols.count(operand.symbol))
        value = program->sharedStatic;
      else if (auto it = sharedSymbols.find(operand.symbol); it != sharedSymbols.end())
        value = it->second;
      else if (auto global = program->globals.find(operand.symbol); global != program->globals.end())
        value = reinterpret_cast<Bits>(global->second->data());
      else
        fail("unknown symbol " + operand.symbol);
      operand.value += value;
      if (operand.kind == Operand::Symbol)
        operand.kind = Operand::Immediate;
    }
    for (Operand &part : operand.parts)
      resolve(part);
  }

  void finishKernel(Kernel &parsed) {
    Instruction end;
    end.words = {"ret"};
    end.text = "ret;";
    end.flow = Instruction::Exit;
    parsed.code.push_back(end);
    for (Instruction &in : parsed.code) {
      for (Operand &operand : in.operands)
        resolve(operand);
      if (in.flow == Instruction::Branch) {
        auto &known = labelsOf[parsed.name];
        auto it = known.find(in.label);
        if (it == known.end())
          fail("line " + std::to_string(in.line) + ": unknown label " + in.label);
        in.target = it->second;
      }
      parsed.startsEarly |= in.words[0] == "griddepcontrol" && in.has("wait");
      if (in.flow != Instruction::Next)
        continue;
      try {
        decode(in);
      } catch (const PtxError &problem) {
        fail("line " + std::to_string(in.line) + ": " + problem.what() + ": " + in.text);
      }
    }
    findReconvergence(parsed.code);
  }

  /// The immediate postdominator of every conditional branch.
  static void findReconvergence(std::vector<Instruction> &code) {
    // Basic blocks.
    int count = static_cast<int>(code.size());
    std::set<int> starts = {0};
    for (int i = 0; i < count; ++i)
      if (code[i].flow != Instruction::Next) {
        if (code[i].target >= 0)
          starts.insert(code[i].target);
        if (i + 1 < count)
          starts.insert(i + 1);
      }
    std::vector<int> begin(starts.begin(), starts.end()), blockOf(count);
    int blocks = static_cast<int>(begin.size());
    for (int b = 0; b < blocks; ++b)
      for (int i = begin[b]; i < (b + 1 < blocks ? begin[b + 1] : count); ++i)
        blockOf[i] = b;
    std::vector<std::vector<int>> successors(blocks);
    for (int b = 0; b < blocks; ++b) {
      int last = (b + 1 < blocks ? begin[b + 1] : count) - 1;
      const Instruction &instruction = code[last];
      bool leaves = instruction.flow == Instruction::Exit;
      if (instruction.target >= 0)
        successors[b].push_back(blockOf[instruction.target]);
      if (leaves)
        successors[b].push_back(blocks);
      if ((!(instruction.target >= 0 || leaves) || instruction.predicate >= 0) && b + 1 < blocks)
        successors[b].push_back(b + 1);
    }
    // Postdominators as bit sets; programs are small.
    std::vector<std::vector<bool>> after(blocks + 1, std::vector<bool>(blocks + 1, true));
    after[blocks].assign(blocks + 1, false);
    after[blocks][blocks] = true;
    for (bool changed = true; changed;) {
      changed = false;
      for (int b = blocks - 1; b >= 0; --b) {
        std::vector<bool> next(blocks + 1, !successors[b].empty());
        for (int s : successors[b])
          for (int i = 0; i <= blocks; ++i)
            next[i] = next[i] && after[s][i];
        next[b] = true;
        if (next != after[b]) {
          after[b] = next;
          changed = true;
        }
      }
    }
    for (int i = 0; i < count; ++i) {
      if (code[i].target < 0 || code[i].predicate < 0)
        continue;
      int b = blockOf[i], nearest = blocks;
      std::size_t most = 0;
      for (int candidate = 0; candidate < blocks; ++candidate) {
        if (candidate == b || !after[b][candidate])
          continue;
        auto size = static_cast<std::size_t>(std::count(after[candidate].begin(), after[candidate].end(), true));
        if (size > most) { // the nearest one has the most behind it
          most = size;
          nearest = candidate;
        }
      }
      code[i].reconverge = nearest == blocks ? count : begin[nearest];
    }
  }

  std::string text;
  std::size_t at = 0;
  std::unique_ptr<PtxProgram> program;
  Kernel *kernel = nullptr;
  std::map<std::string, int> registers;
  std::map<std::string, std::map<std::string, int>> labelsOf; ///< by kernel
  std::map<std::string, int> *labels = nullptr;
  std::vector<std::map<std::string, std::string>> scopes;
  int scopeCount = 0;
  std::map<std::string, Bits> sharedSymbols;
  std::set<std::string> dynamicSymbols;
};

} // namespace

std::unique_ptr<PtxProgram> parse(const std::string &text) { return Parser(text).parse(); }

} // namespace k3::test::ptx
