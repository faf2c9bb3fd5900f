//===- HtmlReport.cpp - a canary report as a page -----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/canary/Report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace k3run::canary {

namespace {
std::string escape(const std::string &text) {
  std::string out;
  for (char c : text) {
    switch (c) {
    case '&':
      out += "&amp;";
      break;
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '"':
      out += "&quot;";
      break;
    default:
      out += c;
    }
  }
  return out;
}

std::string shortNumber(double value) {
  char text[32];
  snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

struct Series {
  std::string name;
  std::vector<double> x, y;
};

/// Lines with points over a linear x axis; y from 0, or logarithmic.
class Plot {
public:
  Plot(std::string title, std::string xLabel, bool logarithmic = false)
      : title(std::move(title)), xLabel(std::move(xLabel)),
        logarithmic(logarithmic) {}

  void add(Series one) {
    // A logarithm of 0 is nowhere.
    Series kept{one.name, {}, {}};
    for (size_t i = 0; i < one.x.size(); ++i)
      if (std::isfinite(one.y[i]) && (!logarithmic || one.y[i] > 0)) {
        kept.x.push_back(one.x[i]);
        kept.y.push_back(one.y[i]);
      }
    if (!kept.x.empty())
      series.push_back(std::move(kept));
  }

  std::string svg() const {
    if (series.empty())
      return "";
    double left = series[0].x[0], right = left, low = axis(series[0].y[0]),
           high = low;
    for (const Series &each : series)
      for (size_t i = 0; i < each.x.size(); ++i) {
        left = std::min(left, each.x[i]);
        right = std::max(right, each.x[i]);
        low = std::min(low, axis(each.y[i]));
        high = std::max(high, axis(each.y[i]));
      }
    if (!logarithmic)
      low = std::min(low, 0.0);
    if (right == left)
      right = left + 1;
    if (high == low)
      high = low + 1;
    auto px = [&](double x) {
      return marginLeft + (x - left) / (right - left) * plotWidth;
    };
    auto py = [&](double y) {
      return marginTop + (high - y) / (high - low) * plotHeight;
    };
    std::string out = "<figure><figcaption>" + escape(title) +
                      "</figcaption><svg viewBox=\"0 0 560 260\" role=\"img\">";
    constexpr int ticks = 4;
    for (int i = 0; i <= ticks; ++i) {
      double y = low + (high - low) * i / ticks, x = left + (right - left) * i / ticks;
      out += line(marginLeft, py(y), marginLeft + plotWidth, py(y), "#ddd");
      out += label(marginLeft - 6, py(y) + 4, "end",
                   shortNumber(logarithmic ? std::pow(10, y) : y));
      out += label(px(x), marginTop + plotHeight + 16, "middle", shortNumber(x));
    }
    out += label(marginLeft + plotWidth / 2, 252, "middle", xLabel);
    static const char *colors[] = {"#1b6ca8", "#c1440e", "#3a7d44", "#7b3f8c",
                                   "#8a6d00"};
    for (size_t s = 0; s < series.size(); ++s) {
      std::string color = colors[s % 5], points;
      for (size_t i = 0; i < series[s].x.size(); ++i) {
        std::string x = shortNumber(px(series[s].x[i])),
                    y = shortNumber(py(axis(series[s].y[i])));
        points += x + "," + y + " ";
        out += "<circle cx=\"" + x + "\" cy=\"" + y + "\" r=\"2.5\" fill=\"" +
               color + "\"><title>" + escape(series[s].name) + ": " +
               shortNumber(series[s].x[i]) + ", " +
               shortNumber(series[s].y[i]) + "</title></circle>";
      }
      out += "<polyline points=\"" + points +
             "\" fill=\"none\" stroke=\"" + color + "\"/>";
      out += "<text x=\"" + shortNumber(marginLeft + 8) + "\" y=\"" +
             shortNumber(marginTop + 14 + 15 * double(s)) + "\" fill=\"" +
             color + "\">" + escape(series[s].name) + "</text>";
    }
    return out + "</svg></figure>\n";
  }

private:
  static constexpr double marginLeft = 70, marginTop = 10, plotWidth = 470,
                          plotHeight = 200;
  double axis(double y) const { return logarithmic ? std::log10(y) : y; }
  static std::string line(double x1, double y1, double x2, double y2,
                          const char *color) {
    return "<line x1=\"" + shortNumber(x1) + "\" y1=\"" + shortNumber(y1) +
           "\" x2=\"" + shortNumber(x2) + "\" y2=\"" + shortNumber(y2) +
           "\" stroke=\"" + color + "\"/>";
  }
  static std::string label(double x, double y, const char *anchor,
                           const std::string &text) {
    return "<text x=\"" + shortNumber(x) + "\" y=\"" + shortNumber(y) +
           "\" text-anchor=\"" + anchor + "\">" + escape(text) + "</text>";
  }

  std::string title, xLabel;
  bool logarithmic;
  std::vector<Series> series;
};

/// A series over the elements of `list`.
template <typename List, typename X, typename Y>
Series over(const std::string &name, const List &list, X x, Y y) {
  Series series{name, {}, {}};
  for (const auto &each : list) {
    series.x.push_back(double(x(each)));
    series.y.push_back(double(y(each)));
  }
  return series;
}
} // namespace

std::string toHtml(const Report &r) {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<title>Canary report: " +
      escape(r.model) +
      "</title><style>body{font:15px/1.5 system-ui,sans-serif;max-width:1160px;"
      "margin:2em auto;padding:0 1em;color:#222}figure{display:inline-block;"
      "width:540px;margin:0 16px 16px 0;vertical-align:top}svg{width:100%}"
      "svg text{font-size:11px}figcaption{font-weight:600}pre{background:#f6f6f4;"
      "padding:1em;overflow-x:auto}</style></head><body>\n<h1>" +
      escape(r.model) + "</h1>\n<p>" + escape(r.artifact) + ", " +
      escape(r.compiler) + "</p>\n";

  auto context = [](const Latency &each) { return each.context; };
  Plot first("Time to first token (ms)", "prompt tokens");
  first.add(over("first token", r.latency, context,
                 [](const Latency &each) { return each.firstTokenMs; }));
  Plot each("Time per output token (ms)", "context tokens");
  each.add(over("per token", r.latency, context,
                [](const Latency &e) { return e.perTokenMs; }));
  Plot skew("Expert load: busiest / mean", "layer");
  skew.add(over("max/mean", r.routing,
                [](const Routing &e) { return e.layer; },
                [](const Routing &e) { return e.skew.maxOverMean; }));
  Plot entropy("Expert load: entropy (1 = even) and share never used", "layer");
  entropy.add(over("entropy", r.routing,
                   [](const Routing &e) { return e.layer; },
                   [](const Routing &e) { return e.skew.entropy; }));
  entropy.add(over("never used", r.routing,
                   [](const Routing &e) { return e.layer; },
                   [](const Routing &e) {
                     return double(e.skew.unused) / double(e.experts);
                   }));
  Plot drift("Drift of layer outputs (relative error)", "layer",
             /*logarithmic=*/true);
  for (const Drift &one : r.drift) {
    Series series{one.name, {}, {}};
    for (size_t i = 0; i < one.layerErrors.size(); ++i) {
      series.x.push_back(double(i));
      series.y.push_back(one.layerErrors[i]);
    }
    drift.add(std::move(series));
  }
  auto layer = [](const LayerOutliers &e) { return e.layer; };
  Plot peaks("Activations: largest / rms, and kurtosis", "layer",
             /*logarithmic=*/true);
  peaks.add(over("max/rms", r.outliers, layer, [](const LayerOutliers &e) {
    return e.values.maxOverRms;
  }));
  peaks.add(over("kurtosis", r.outliers, layer, [](const LayerOutliers &e) {
    return e.values.kurtosis;
  }));
  Plot cost("What MX formats would cost these activations (relative error)",
            "layer", /*logarithmic=*/true);
  cost.add(over("MXFP4", r.outliers, layer, [](const LayerOutliers &e) {
    return e.values.mxfp4Error;
  }));
  cost.add(over("MXFP8", r.outliers, layer, [](const LayerOutliers &e) {
    return e.values.mxfp8Error;
  }));
  for (const Plot *plot : {&first, &each, &skew, &entropy, &drift, &peaks, &cost})
    out += plot->svg();
  return out + "<h2>All numbers</h2>\n<pre>" + escape(toText(r)) +
         "</pre>\n</body></html>\n";
}

} // namespace k3run::canary
