//===- ChatAnswerTest.cpp - the parts of a chat answer ------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/text/ChatAnswer.h"

#include "test/unit/Text/TestTokenizer.h"

#include "gtest/gtest.h"

using namespace k3rt;
using namespace k3rt::test;

namespace {
struct Answer {
  std::string reasoning, response, tools;
};

Answer read(const char *model, ChatFormat format, bool thinking,
            const std::string &text) {
  const Tokenizer &tokenizer = modelTokenizer(model);
  ChatAnswerReader reader(tokenizer, format, thinking);
  std::vector<ChatAnswerReader::Delta> deltas;
  std::string error;
  for (int32_t id : encode(tokenizer, text, AllowSpecial::yes))
    EXPECT_TRUE(reader.push(id, deltas, error)) << error;
  reader.finish(deltas);
  Answer answer;
  for (const ChatAnswerReader::Delta &delta : deltas)
    (delta.part == ChatAnswerReader::Part::reasoning  ? answer.reasoning
     : delta.part == ChatAnswerReader::Part::response ? answer.response
                                                      : answer.tools) +=
        delta.text;
  return answer;
}
Answer k3(bool thinking, const std::string &text) {
  return read("k3-nano", ChatFormat::kimiK3, thinking, text);
}

TEST(ChatAnswer, ReasoningThenResponse) {
  Answer answer = k3(true, "Let me see.<|close|>think<|sep|><|open|>response"
                           "<|sep|>Hello 汉!<|close|>response<|sep|><|close|>"
                           "message<|sep|><|end_of_msg|>");
  EXPECT_EQ(answer.reasoning, "Let me see.");
  EXPECT_EQ(answer.response, "Hello 汉!");
  EXPECT_EQ(answer.tools, "");
  answer = k3(false, "Hello<|close|>response<|sep|>");
  EXPECT_EQ(answer.reasoning, "");
  EXPECT_EQ(answer.response, "Hello");
}

TEST(ChatAnswer, ToolCallsAreShown) {
  Answer answer =
      k3(false, "On it.<|close|>response<|sep|><|open|>tools<|sep|><|open|>call "
                "tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"a\" "
                "type=\"string\"<|sep|>x<|close|>argument<|sep|><|close|>call"
                "<|sep|><|close|>tools<|sep|>");
  EXPECT_EQ(answer.response, "On it.");
  EXPECT_EQ(answer.tools,
            "<tools><call tool=\"f\" index=\"1\"><argument key=\"a\" "
            "type=\"string\">x</argument></call></tools>");
  answer = read("kimi-linear-nano", ChatFormat::kimiK2, true,
                "On it.<|tool_calls_section_begin|><|tool_call_begin|>f:0"
                "<|tool_call_argument_begin|>{}<|tool_call_end|>"
                "<|tool_calls_section_end|>done<|im_end|>");
  EXPECT_EQ(answer.response, "On it.done");
  EXPECT_EQ(answer.reasoning, "");
  EXPECT_EQ(answer.tools,
            "<|tool_calls_section_begin|><|tool_call_begin|>f:0"
            "<|tool_call_argument_begin|>{}<|tool_call_end|>"
            "<|tool_calls_section_end|>");
}

TEST(ChatAnswer, StrayTagsAreIgnored) {
  Answer answer = k3(false, "a<|close|>nothing<|sep|>b<|sep|>c<|open|>x");
  EXPECT_EQ(answer.response, "abc");
  answer = k3(false, "a<|close|>message<|sep|>b<|close|>message<|sep|>c");
  EXPECT_EQ(answer.response, "abc");
}

TEST(ChatAnswer, RefusesUnknownIds) {
  ChatAnswerReader reader(modelTokenizer("k3-nano"), ChatFormat::kimiK3, true);
  std::vector<ChatAnswerReader::Delta> deltas;
  std::string error;
  EXPECT_FALSE(reader.push(99999, deltas, error));
  EXPECT_NE(error, "");
}
} // namespace
